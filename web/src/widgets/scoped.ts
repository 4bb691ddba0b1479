/** The studio's style sheet for a guest on somebody else's page: every rule holds inside the widget and nowhere else. */

interface Rule {
  selector: string;
  selectors: string[];
  source?: { input?: { file?: string } };
  parent?: { type: string; name?: string };
}
interface AtRule {
  name: string;
  params: string;
  remove(): unknown;
  source?: { input?: { file?: string } };
}

const isOf = (node: { source?: { input?: { file?: string } } }, file: string) => node.source?.input?.file?.endsWith(`/${file}`);

/** One selector, inside the widget. */
export function inside(selector: string, scope: string): string {
  if (/^(:root|html|body)$/.test(selector)) return scope;
  const root = /^:root(\[.*\])$/.exec(selector);
  if (root) return `${scope}${root[1]}`;
  return `${scope} ${selector}`;
}

/** What PostCSS calls a plugin; a page's own sizes for wide screens are left out, a notebook decides them. */
export function scoped(file: string, scope: string) {
  return {
    postcssPlugin: "scoped",
    AtRule(rule: AtRule) {
      if (isOf(rule, file) && rule.name === "media" && rule.params.includes("min-width")) rule.remove();
    },
    Once(root: { walkRules(each: (rule: Rule) => void): void }) {
      root.walkRules((rule) => {
        if (isOf(rule, file)) rule.selectors = rule.selectors.map((each) => inside(each, scope));
      });
    },
  };
}
