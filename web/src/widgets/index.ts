/** The drawings of the studio in notebooks: one module that anywidget loads. */
export default { render() {} };
