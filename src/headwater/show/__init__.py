"""What answers are shown as: plain values, and how they are drawn for terminals, pages and files."""
