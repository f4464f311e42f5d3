"""cells: text in columns of a terminal, whatever script it is in."""
import unicodedata

JOINER = "\u200d"  # makes one emoji of several


def width(char):
    """Columns that a character takes."""
    if char == JOINER or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text, columns, right=False):
    """`text` in exactly that many columns, cut with two dots where longer;
    control characters, which could move the cursor, become blanks."""
    text = "".join(c if c.isprintable() or width(c) == 0 else " "
                   for c in str(text))
    total = sum(map(width, text))
    if total > columns:
        while total > columns - 2:
            total -= width(text[-1])
            text = text[:-1]
        text += ".."
        total += 2
    blank = " " * (columns - total)
    return blank + text if right else text + blank
