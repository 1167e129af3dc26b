package engine

import (
	"runtime"
	"time"

	"github.com/go-handoff/handoff/internal/hunt"
)

// MemOp kinds, as the ABI numbers them.
const (
	OpWait32  = 1
	OpWrite32 = 2
	OpWait64  = 4
	OpWrite64 = 5
	OpFlush   = 3
	OpBarrier = 6
)

// MemOp is one operation on a word of memory.
type MemOp struct {
	Kind  int32
	Addr  uint64
	Value uint64
	Flags uint32
}

// MemOps is a batch of them, done in order.
type MemOps struct {
	Ctx Handle
	Ops []MemOp
}

// memOpsWork does a batch.
type memOpsWork struct {
	ops  MemOps
	mem  [][]byte
	late *hunt.Late // what the work after it gets to know, in a hunt
}

func (*memOpsWork) nodeType() NodeType { return NodeMemOp }

func (w *memOpsWork) access() (reads, writes []Range) {
	for _, o := range w.ops.Ops {
		switch o.Kind {
		case OpWait32:
			reads = append(reads, Range{o.Addr, 4})
		case OpWait64:
			reads = append(reads, Range{o.Addr, 8})
		case OpWrite32:
			writes = append(writes, Range{o.Addr, 4})
		case OpWrite64:
			writes = append(writes, Range{o.Addr, 8})
		}
	}
	return reads, writes
}

// words are the addresses that the batch waits for and writes.
func (w *memOpsWork) words() (waits, writes []uint64) {
	for _, o := range w.ops.Ops {
		switch o.Kind {
		case OpWait32, OpWait64:
			waits = append(waits, o.Addr)
		case OpWrite32, OpWrite64:
			writes = append(writes, o.Addr)
		}
	}
	return waits, writes
}

// newMemOps checks a batch and finds its memory.
func (e *Engine) newMemOps(p MemOps) (*memOpsWork, Code) {
	w := &memOpsWork{ops: p, mem: make([][]byte, len(p.Ops))}
	for i, o := range p.Ops {
		n := uint64(4)
		switch o.Kind {
		case OpWait64, OpWrite64:
			n = 8
		case OpWait32, OpWrite32:
		case OpFlush, OpBarrier:
			continue
		default:
			return nil, InvalidValue
		}
		if o.Addr%n != 0 || (o.Kind == OpWait32 || o.Kind == OpWait64) && o.Flags&^(1<<30|3) != 0 ||
			(o.Kind == OpWrite32 || o.Kind == OpWrite64) && o.Flags&^1 != 0 {
			return nil, InvalidValue
		}
		m, code := e.resolve(o.Addr, n, TypeDevice)
		if code != Success {
			return nil, code
		}
		w.mem[i] = m.b
	}
	return w, Success
}

func (w *memOpsWork) run(r *runner) Code {
	if w.late != nil && r.hunt != nil {
		defer r.hunt.over(w)
	}
	for i, o := range w.ops.Ops {
		switch o.Kind {
		case OpWrite32:
			store(w.mem[i], o.Value)
		case OpWrite64:
			store(w.mem[i], o.Value)
		case OpWait32, OpWait64:
			for n := 0; !o.holds(load(w.mem[i])); n++ {
				if n < 64 {
					runtime.Gosched()
				} else {
					time.Sleep(20 * time.Microsecond)
				}
			}
		}
	}
	return Success
}

// holds says whether a wait is over for the value in memory.
func (o MemOp) holds(v uint64) bool {
	want := o.Value
	if o.Kind == OpWait32 {
		want = uint64(uint32(want))
	}
	switch o.Flags & 3 {
	case 0: // greater or equal, cyclic
		if o.Kind == OpWait32 {
			return int32(uint32(v)-uint32(want)) >= 0
		}
		return int64(v-want) >= 0
	case 1:
		return v == want
	case 2:
		return v&want != 0
	default:
		if o.Kind == OpWait32 {
			return ^(uint32(v) | uint32(want)) != 0
		}
		return ^(v | want) != 0
	}
}

func load(b []byte) uint64 {
	if len(b) == 4 {
		return uint64(loadWord32(b))
	}
	return loadWord64(b)
}

func store(b []byte, v uint64) {
	if len(b) == 4 {
		storeWord32(b, uint32(v))
		return
	}
	storeWord64(b, v)
}

// MemOps is cuStreamBatchMemOp and the single writes and waits.
func (e *Engine) MemOps(t *Thread, sh Handle, ops []MemOp) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	if len(ops) == 0 || len(ops) > 256 {
		return InvalidValue
	}
	w, code := e.newMemOps(MemOps{Ops: ops})
	if code != Success {
		return code
	}
	_, code = e.submit(t, s, w)
	return code
}
