package hunt

// Body is the nodes of a graph and what comes before what.
type Body struct{ reach [][]uint64 }

// NewBody makes the order of a graph whose node i comes after the nodes deps(i), all of them
// with smaller numbers.
func NewBody(n int, deps func(i int) []int) *Body {
	words := (n + 63) / 64
	b := &Body{reach: make([][]uint64, n)}
	for i := range n {
		r := make([]uint64, words)
		for _, d := range deps(i) {
			r[d/64] |= 1 << (d % 64)
			for w := range r {
				r[w] |= b.reach[d][w]
			}
		}
		b.reach[i] = r
	}
	return b
}

// before says whether node i comes before node j.
func (b *Body) before(i, j int) bool { return b.reach[j][i/64]&(1<<(i%64)) != 0 }

// Node is one run of a node in one launch of a graph.
type Node struct {
	Desc
	Body  *Body
	Index int
	// Round counts how often the body has run in this launch; rounds follow one another.
	Round int
	// In is the node of which the body is a part, or nil.
	In *Node
}

// chain is the node and those around it, the outermost first.
func (n *Node) chain() []*Node {
	var r []*Node
	for ; n != nil; n = n.In {
		r = append([]*Node{n}, r...)
	}
	return r
}

// before says whether n comes before m in the same launch. Runs of which at most one can
// happen count as ordered.
func (n *Node) before(m *Node) bool {
	a, b := n.chain(), m.chain()
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		switch {
		case x.Body != y.Body:
			return true
		case x.Round != y.Round:
			return x.Round < y.Round
		case x.Index != y.Index:
			return x.Body.before(x.Index, y.Index)
		}
	}
	return true
}
