package hunt

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// Race is two accesses to the same bytes that no edge orders.
type Race struct {
	// First was submitted before Second; neither comes before the other.
	First, Second Side
	// Bytes are the first that both touch; the memory is Alloc, of the kind Label.
	Bytes, Alloc Range
	Label        string
	// Fix is the edge that would order them.
	Fix string
	// Count is how often the same race was seen: the same calls in the same places.
	Count int

	last uint64 // when it was seen last, in sightings of races
}

// Side is one of the two accesses.
type Side struct {
	Kind   Kind
	Op     string // what the work was
	Stream string
	Device int    // ordinal; -1 for the host
	Seq    uint64 // which work of its stream
	Sub    uint64 // which work of all
	Site   []Frame
}

// Frame is one line of a call site, the innermost call first.
type Frame struct {
	Func, File string
	Line       int
}

type raceKey struct {
	a, b   string
	ak, bk Kind
	region uint64
}

func (h *Hunter) report(r *region, s seg, a, b ref) {
	if a.op.sub > b.op.sub {
		a, b = b, a
	}
	k := raceKey{a: a.key(), b: b.key(), ak: a.kind, bk: b.kind}
	if len(a.site()) == 0 || len(b.site()) == 0 {
		k.region = r.base
		k.a += a.op.Stream.Name
		k.b += b.op.Stream.Name
	}
	h.sightings++
	if old := h.byKey[k]; old != nil {
		old.Count++
		old.last = h.sightings
		return
	}
	if len(h.races) >= h.cfg.Races {
		h.stats.RacesDropped++
		return
	}
	x := &Race{
		First: a.side(), Second: b.side(), Count: 1, Label: r.label, last: h.sightings,
		Bytes: Range{s.lo, s.hi - s.lo}, Alloc: Range{r.base, r.size},
	}
	x.Fix = fix(a, b)
	h.byKey[k] = x
	h.races = append(h.races, x)
	for _, f := range h.found {
		f(x)
	}
}

func (x ref) desc() *Desc {
	if x.node != nil {
		return &x.node.Desc
	}
	return &x.op.Desc
}

// site is where the work was submitted; a node of a graph has its launch's.
func (x ref) site() []uintptr {
	if s := x.desc().Site; len(s) > 0 {
		return s
	}
	return x.op.Site
}

func (x ref) key() string {
	d := x.desc()
	return fmt.Sprint(d.Kind, d.Name, x.site())
}

func (d *Desc) text() string {
	if d.Name == "" {
		return d.Kind
	}
	return d.Kind + " " + d.Name
}

func (x ref) side() Side {
	s := Side{Kind: x.kind, Op: x.desc().text(), Stream: x.op.Stream.Name, Device: x.op.Stream.Device, Seq: x.op.Seq, Sub: x.op.sub}
	if x.node != nil {
		s.Op = fmt.Sprintf("%s (node %d of the graph launched by work %d)", s.Op, x.node.Index, x.op.Seq)
	}
	s.Site = Frames(x.site())
	return s
}

func fix(a, b ref) string {
	ad, bd := a.desc().text(), b.desc().text()
	switch {
	case a.op == b.op:
		return fmt.Sprintf("add an edge to the graph from the %s (node %d) to the %s (node %d); in a capture, let the second one's stream wait for an event recorded after the first",
			ad, a.node.Index, bd, b.node.Index)
	case b.op.Stream.Device < 0:
		return fmt.Sprintf("let the host wait for the %s on the %s (synchronize the stream, or an event recorded after it) before this %s", ad, a.op.Stream.Name, bd)
	case a.op.Stream.Device < 0:
		return fmt.Sprintf("submit the %s only after the host's %s", bd, ad)
	}
	return fmt.Sprintf("make the %s of device %d wait, before the %s, for an event recorded in the %s of device %d after the %s",
		b.op.Stream.Name, b.op.Stream.Device, bd, a.op.Stream.Name, a.op.Stream.Device, ad)
}

// Races returns the different races found so far, in the order in which they were found.
func (h *Hunter) Races() []Race {
	return h.Since(0)
}

// Mark is a point in the sequence of sightings, for Since.
func (h *Hunter) Mark() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sightings
}

// Since returns the different races that were seen after a mark, for the first time or again.
func (h *Hunter) Since(mark uint64) []Race {
	h.mu.Lock()
	defer h.mu.Unlock()
	var r []Race
	for _, x := range h.races {
		if x.last > mark {
			r = append(r, *x)
		}
	}
	return r
}

// Forget drops the races that were seen after a mark.
func (h *Hunter) Forget(mark uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.races = slices.DeleteFunc(h.races, func(x *Race) bool { return x.last > mark })
	for k, x := range h.byKey {
		if x.last > mark {
			delete(h.byKey, k)
		}
	}
}

// Callers is the call stack of the caller, cheaply.
func Callers(skip int) []uintptr {
	var pc [32]uintptr
	n := runtime.Callers(skip+2, pc[:])
	return append([]uintptr(nil), pc[:n]...)
}

// inner are the packages that a call site is not in: it is where the program, or the part
// of the library above the driver, made the call.
var inner = []string{
	"runtime.", "runtime/", "github.com/go-handoff/handoff/device/soft.", "github.com/go-handoff/handoff/device/soft/internal/",
	"github.com/go-handoff/handoff/device/driver.", "_cgoexp_", "github.com/go-handoff/handoff/internal/hunt.", "testing.tRunner",
}

// Frames names the calls of a stack, without those of the runtime and of the driver. Tests of the inner packages
// keep their own frames.
func Frames(pcs []uintptr) []Frame {
	var r []Frame
	if len(pcs) == 0 {
		return nil
	}
	it := runtime.CallersFrames(pcs)
	for {
		f, more := it.Next()
		own := f.Function == ""
		if !strings.HasSuffix(f.File, "_test.go") {
			own = own || strings.Contains(f.File, "/device/driver/") // also where it was inlined
			for _, p := range inner {
				own = own || strings.HasPrefix(f.Function, p)
			}
		}
		if !own {
			r = append(r, Frame{f.Function, f.File, f.Line})
		}
		if !more {
			return r
		}
	}
}

// String is the report of a race, several lines without a final newline.
func (x *Race) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "missing synchronization: %s and %s of the same bytes without an edge between them", x.First.Kind, x.Second.Kind)
	if x.Count > 1 {
		fmt.Fprintf(&b, " (%d times)", x.Count)
	}
	fmt.Fprintf(&b, "\n  bytes %#x to %#x: offset %d, %d bytes of %s %#x of %d bytes", x.Bytes.Addr, x.Bytes.Addr+x.Bytes.Len,
		x.Bytes.Addr-x.Alloc.Addr, x.Bytes.Len, x.Label, x.Alloc.Addr, x.Alloc.Len)
	for i, s := range []*Side{&x.First, &x.Second} {
		fmt.Fprintf(&b, "\n  %s: %s by %s, ", [...]string{"first", "second"}[i], s.Kind, s.Op)
		if s.Device < 0 {
			fmt.Fprintf(&b, "the host")
		} else {
			fmt.Fprintf(&b, "work %d of %s, device %d", s.Seq, s.Stream, s.Device)
		}
		if len(s.Site) == 0 {
			b.WriteString("\n    submitted by code without Go frames")
		}
		for _, f := range s.Site[:min(len(s.Site), 8)] {
			fmt.Fprintf(&b, "\n    %s\n      %s:%d", f.Func, f.File, f.Line)
		}
	}
	fmt.Fprintf(&b, "\n  fix: %s", x.Fix)
	return b.String()
}
