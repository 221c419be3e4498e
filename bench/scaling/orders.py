"""Sums as the expressions that they are: which order did the additions have?

    orders = Orders()
    total = orders.tree([orders.leaf(i) for i in range(19)])
    total == orders.expected(0, 19, orders.leaf)          # the same number: the same order, term by term

An expression is a number that stands for an ordered pair (left, right) or for a term; equal pairs have equal
numbers, so two sums are equal only if every addition has the same operands on the same sides.
"""

TERM, ADD, CONTINUE = "term", "add", "continue"


class Orders:
    def __init__(self):
        self._numbers, self._trees, self._expected = {}, {}, {}

    def _number(self, *expression):
        return self._numbers.setdefault(expression, len(self._numbers))

    def leaf(self, *name):
        return self._number(TERM, *name)

    def add(self, left, right):
        return self._number(ADD, left, right)

    def extend(self, accumulator, *name):
        """An accumulator that goes on with further terms."""
        return self._number(CONTINUE, accumulator, *name)

    def tree(self, terms):
        """Neighbours are added, then again, until one is left; an odd one out moves up (kernel sum.tree)."""
        terms = tuple(terms)
        if terms not in self._trees:
            level = terms
            while len(level) > 1:
                odd = level[-1:] if len(level) % 2 else ()
                level = tuple(self.add(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)) + odd
            self._trees[terms] = level[0]
        return self._trees[terms]

    def ring(self, terms, owner):
        """What a ring would do: the slice begins behind its owner and comes round to it. Another order."""
        n = len(terms)
        total = terms[(owner + 1) % n]
        for step in range(2, n + 1):
            total = self.add(total, terms[(owner + step) % n])
        return total

    def expected(self, first, count, leaf):
        """The balanced tree by another definition: the left part is the largest power of two below `count`."""
        key = (first, count, leaf)
        if key not in self._expected:
            if count == 1:
                self._expected[key] = leaf(first)
            else:
                left = 1 << ((count - 1).bit_length() - 1)
                self._expected[key] = self.add(self.expected(first, left, leaf),
                                               self.expected(first + left, count - left, leaf))
        return self._expected[key]


class Stack:
    """GradientSum's tree over the lanes of one rank: neighbours of one level are added as soon as both are there."""

    def __init__(self, orders):
        self._orders, self._stack = orders, []

    def push(self, lane):
        self._stack.append((0, lane))
        while len(self._stack) >= 2 and self._stack[-2][0] == self._stack[-1][0]:
            self._merge()

    def _merge(self):
        (level, left), (_, right) = self._stack[-2:]
        self._stack[-2:] = [(level + 1, self._orders.add(left, right))]

    def finish(self):
        while len(self._stack) >= 2:
            self._merge()
        return self._stack[0][1]
