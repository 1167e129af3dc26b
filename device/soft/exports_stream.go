//go:build cgo && linux

package soft

// #include "soft.h"
import "C"

import (
	"unsafe"

	"github.com/go-handoff/handoff/device/soft/internal/engine"
)

// This file has the entry points for streams, capture and events.

//export ho_soft_cuStreamCreate
func ho_soft_cuStreamCreate(out *C.ho_stream, flags C.uint32_t) C.ho_result {
	return ho_soft_cuStreamCreateWithPriority(out, flags, 0)
}

//export ho_soft_cuStreamCreateWithPriority
func ho_soft_cuStreamCreateWithPriority(out *C.ho_stream, flags C.uint32_t, priority C.int) C.ho_result {
	return call("cuStreamCreateWithPriority", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		h, c := e.StreamCreate(t, uint32(flags), int(priority))
		return put(out, C.ho_stream(h), c)
	})
}

//export ho_soft_cuStreamDestroy
func ho_soft_cuStreamDestroy(s C.ho_stream) C.ho_result {
	return call("cuStreamDestroy", func(e *eng, t *thr) code { return e.StreamDestroy(t, engine.Handle(s)) })
}

//export ho_soft_cuStreamGetPriority
func ho_soft_cuStreamGetPriority(s C.ho_stream, out *C.int) C.ho_result {
	return call("cuStreamGetPriority", func(e *eng, t *thr) code {
		v, c := e.StreamPriority(t, engine.Handle(s))
		return put(out, C.int(v), c)
	})
}

//export ho_soft_cuStreamGetFlags
func ho_soft_cuStreamGetFlags(s C.ho_stream, out *C.uint32_t) C.ho_result {
	return call("cuStreamGetFlags", func(e *eng, t *thr) code {
		v, c := e.StreamFlags(t, engine.Handle(s))
		return put(out, C.uint32_t(v), c)
	})
}

//export ho_soft_cuStreamGetId
func ho_soft_cuStreamGetId(s C.ho_stream, out *C.uint64_t) C.ho_result {
	return call("cuStreamGetId", func(e *eng, t *thr) code {
		v, c := e.StreamID(t, engine.Handle(s))
		return put(out, C.uint64_t(v), c)
	})
}

//export ho_soft_cuStreamGetCtx
func ho_soft_cuStreamGetCtx(s C.ho_stream, out *C.ho_context) C.ho_result {
	return call("cuStreamGetCtx", func(e *eng, t *thr) code {
		v, c := e.StreamCtx(t, engine.Handle(s))
		return put(out, C.ho_context(v), c)
	})
}

//export ho_soft_cuStreamGetDevice
func ho_soft_cuStreamGetDevice(s C.ho_stream, out *C.ho_device) C.ho_result {
	return call("cuStreamGetDevice", func(e *eng, t *thr) code {
		v, c := e.StreamDevice(t, engine.Handle(s))
		return put(out, C.ho_device(v), c)
	})
}

//export ho_soft_cuStreamWaitEvent
func ho_soft_cuStreamWaitEvent(s C.ho_stream, ev C.ho_event, flags C.uint32_t) C.ho_result {
	return call("cuStreamWaitEvent", func(e *eng, t *thr) code {
		return e.StreamWaitEvent(t, engine.Handle(s), engine.Handle(ev), uint32(flags))
	})
}

//export ho_soft_cuStreamQuery
func ho_soft_cuStreamQuery(s C.ho_stream) C.ho_result {
	return call("cuStreamQuery", func(e *eng, t *thr) code { return e.StreamQuery(t, engine.Handle(s)) })
}

//export ho_soft_cuStreamSynchronize
func ho_soft_cuStreamSynchronize(s C.ho_stream) C.ho_result {
	return call("cuStreamSynchronize", func(e *eng, t *thr) code { return e.StreamSynchronize(t, engine.Handle(s)) })
}

// word is the number of a C function pointer: Go keeps it as an integer.
func word(fn unsafe.Pointer) C.ho_word { return C.ho_word(uintptr(fn)) }

//export ho_soft_cuStreamAddCallback
func ho_soft_cuStreamAddCallback(s C.ho_stream, fn C.ho_stream_callback, user C.ho_word, flags C.uint32_t) C.ho_result {
	f := word(unsafe.Pointer(fn))
	return call("cuStreamAddCallback", func(e *eng, t *thr) code {
		if f == 0 || flags != 0 {
			return invalid
		}
		return e.AddCallback(t, engine.Handle(s), func(c code) { C.ho_soft_call_stream(f, s, C.ho_result(c), user) })
	})
}

//export ho_soft_cuLaunchHostFunc
func ho_soft_cuLaunchHostFunc(s C.ho_stream, fn C.ho_host_fn, user C.ho_word) C.ho_result {
	f := word(unsafe.Pointer(fn))
	return call("cuLaunchHostFunc", func(e *eng, t *thr) code {
		if f == 0 {
			return invalid
		}
		var touches *[2][]engine.Range
		if e.Hunter() != nil {
			touches = hostTouches(uintptr(user))
		}
		return e.LaunchHostFunc(t, engine.Handle(s), func() { C.ho_soft_call_host(f, user) }, uintptr(f), uintptr(user), touches)
	})
}

//export ho_soft_cuStreamAttachMemAsync
func ho_soft_cuStreamAttachMemAsync(s C.ho_stream, p C.ho_devptr, n C.size_t, flags C.uint32_t) C.ho_result {
	return call("cuStreamAttachMemAsync", func(e *eng, t *thr) code {
		return e.AttachMem(t, engine.Handle(s), uint64(p), uint64(n), uint32(flags))
	})
}

//export ho_soft_cuStreamCopyAttributes
func ho_soft_cuStreamCopyAttributes(dst, src C.ho_stream) C.ho_result {
	return call("cuStreamCopyAttributes", func(e *eng, t *thr) code {
		return e.StreamCopyAttributes(t, engine.Handle(dst), engine.Handle(src))
	})
}

// value is the 64 bytes of an attribute value.
func value(v *C.ho_launch_attribute_value) *[64]byte {
	// SAFETY: the union has 64 bytes, which the header asserts, and any bytes are valid.
	return (*[64]byte)(unsafe.Pointer(v))
}

//export ho_soft_cuStreamGetAttribute
func ho_soft_cuStreamGetAttribute(s C.ho_stream, id C.int, out *C.ho_launch_attribute_value) C.ho_result {
	return call("cuStreamGetAttribute", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		v, c := e.StreamAttribute(t, engine.Handle(s), int32(id))
		return put(value(out), v, c)
	})
}

//export ho_soft_cuStreamSetAttribute
func ho_soft_cuStreamSetAttribute(s C.ho_stream, id C.int, in *C.ho_launch_attribute_value) C.ho_result {
	return call("cuStreamSetAttribute", func(e *eng, t *thr) code {
		if in == nil {
			return invalid
		}
		return e.StreamSetAttribute(t, engine.Handle(s), int32(id), *value(in))
	})
}

// handles copies an array of handles from C; nil if it is NULL though n is not 0.
func handles[T ~uintptr | ~uint64](p *T, n C.size_t) ([]engine.Handle, bool) {
	if n == 0 {
		return nil, true
	}
	if p == nil || n > 1<<24 {
		return nil, false
	}
	r := make([]engine.Handle, n)
	// SAFETY: the caller says that the array has n elements.
	for i, h := range unsafe.Slice(p, int(n)) {
		r[i] = engine.Handle(h)
	}
	return r, true
}

// plainEdges says whether no edge data, or only default edges, are given: the software
// device has no others.
func plainEdges(p *C.ho_graph_edge_data, n C.size_t) bool {
	if p == nil || n > 1<<24 {
		return p == nil
	}
	// SAFETY: the caller says that the array has n elements.
	for _, d := range unsafe.Slice(p, int(n)) {
		if d != (C.ho_graph_edge_data{}) {
			return false
		}
	}
	return true
}

//export ho_soft_cuStreamBeginCapture
func ho_soft_cuStreamBeginCapture(s C.ho_stream, mode C.int) C.ho_result {
	return call("cuStreamBeginCapture", func(e *eng, t *thr) code {
		return e.BeginCapture(t, engine.Handle(s), engine.CaptureMode(mode), 0, nil)
	})
}

//export ho_soft_cuStreamBeginCaptureToGraph
func ho_soft_cuStreamBeginCaptureToGraph(s C.ho_stream, g C.ho_graph, deps *C.ho_graph_node, data *C.ho_graph_edge_data, n C.size_t, mode C.int) C.ho_result {
	return call("cuStreamBeginCaptureToGraph", func(e *eng, t *thr) code {
		d, ok := handles(deps, n)
		if !ok || g == 0 || !plainEdges(data, n) {
			return invalid
		}
		return e.BeginCapture(t, engine.Handle(s), engine.CaptureMode(mode), engine.Handle(g), d)
	})
}

//export ho_soft_cuThreadExchangeStreamCaptureMode
func ho_soft_cuThreadExchangeStreamCaptureMode(mode *C.int) C.ho_result {
	return call("cuThreadExchangeStreamCaptureMode", func(e *eng, t *thr) code {
		if mode == nil {
			return invalid
		}
		old, c := e.ExchangeCaptureMode(t, engine.CaptureMode(*mode))
		return put(mode, C.int(old), c)
	})
}

//export ho_soft_cuStreamEndCapture
func ho_soft_cuStreamEndCapture(s C.ho_stream, out *C.ho_graph) C.ho_result {
	return call("cuStreamEndCapture", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		h, c := e.EndCapture(t, engine.Handle(s))
		*out = C.ho_graph(h)
		return c
	})
}

//export ho_soft_cuStreamIsCapturing
func ho_soft_cuStreamIsCapturing(s C.ho_stream, out *C.int) C.ho_result {
	return call("cuStreamIsCapturing", func(e *eng, t *thr) code {
		i, c := e.StreamCapture(t, engine.Handle(s))
		return put(out, C.int(i.Status), c)
	})
}

// dependencies keep the node lists that cuStreamGetCaptureInfo points its caller at.
// The driver says that a list is valid until the next call on the stream; here it is one
// list per thread of C memory, replaced by the thread's next question.
func dependencies(t *thr, list []engine.Handle) *C.ho_graph_node {
	if len(list) == 0 {
		return nil
	}
	p := t.Scratch(len(list))
	copy(p, list)
	// SAFETY: Scratch is memory outside of the Go heap that lives as long as the thread's state;
	// engine.Handle and ho_graph_node are both words.
	return (*C.ho_graph_node)(unsafe.Pointer(unsafe.SliceData(p)))
}

func captureInfo(e *eng, t *thr, s C.ho_stream, status *C.int, id *C.uint64_t, g *C.ho_graph, deps **C.ho_graph_node, n *C.size_t) code {
	if status == nil {
		return invalid
	}
	i, c := e.StreamCapture(t, engine.Handle(s))
	if c != 0 {
		return c
	}
	*status = C.int(i.Status)
	if i.Status == engine.CaptureNone {
		return engine.Success
	}
	if id != nil {
		*id = C.uint64_t(i.ID)
	}
	if g != nil {
		*g = C.ho_graph(i.Graph)
	}
	if deps != nil {
		*deps = dependencies(t, i.Deps)
	}
	if n != nil {
		*n = C.size_t(len(i.Deps))
	}
	return engine.Success
}

//export ho_soft_cuStreamGetCaptureInfo
func ho_soft_cuStreamGetCaptureInfo(s C.ho_stream, status *C.int, id *C.uint64_t, g *C.ho_graph, deps **C.ho_graph_node, data **C.ho_graph_edge_data, n *C.size_t) C.ho_result {
	return call("cuStreamGetCaptureInfo", func(e *eng, t *thr) code {
		if data != nil {
			*data = nil
		}
		return captureInfo(e, t, s, status, id, g, deps, n)
	})
}

//export ho_soft_cuStreamGetCaptureInfo_v2
func ho_soft_cuStreamGetCaptureInfo_v2(s C.ho_stream, status *C.int, id *C.uint64_t, g *C.ho_graph, deps **C.ho_graph_node, n *C.size_t) C.ho_result {
	return call("cuStreamGetCaptureInfo", func(e *eng, t *thr) code { return captureInfo(e, t, s, status, id, g, deps, n) })
}

//export ho_soft_cuStreamUpdateCaptureDependencies
func ho_soft_cuStreamUpdateCaptureDependencies(s C.ho_stream, deps *C.ho_graph_node, data *C.ho_graph_edge_data, n C.size_t, flags C.uint32_t) C.ho_result {
	return call("cuStreamUpdateCaptureDependencies", func(e *eng, t *thr) code {
		d, ok := handles(deps, n)
		if !ok || flags > 1 || !plainEdges(data, n) {
			return invalid
		}
		return e.UpdateCaptureDeps(t, engine.Handle(s), d, flags == C.HO_CU_STREAM_SET_CAPTURE_DEPENDENCIES)
	})
}

func memOp(api string, s C.ho_stream, op engine.MemOp) C.ho_result {
	return call(api, func(e *eng, t *thr) code { return e.MemOps(t, engine.Handle(s), []engine.MemOp{op}) })
}

//export ho_soft_cuStreamWaitValue32
func ho_soft_cuStreamWaitValue32(s C.ho_stream, p C.ho_devptr, v, flags C.uint32_t) C.ho_result {
	return memOp("cuStreamWaitValue32", s, engine.MemOp{Kind: engine.OpWait32, Addr: uint64(p), Value: uint64(v), Flags: uint32(flags)})
}

//export ho_soft_cuStreamWaitValue64
func ho_soft_cuStreamWaitValue64(s C.ho_stream, p C.ho_devptr, v C.uint64_t, flags C.uint32_t) C.ho_result {
	return memOp("cuStreamWaitValue64", s, engine.MemOp{Kind: engine.OpWait64, Addr: uint64(p), Value: uint64(v), Flags: uint32(flags)})
}

//export ho_soft_cuStreamWriteValue32
func ho_soft_cuStreamWriteValue32(s C.ho_stream, p C.ho_devptr, v, flags C.uint32_t) C.ho_result {
	return memOp("cuStreamWriteValue32", s, engine.MemOp{Kind: engine.OpWrite32, Addr: uint64(p), Value: uint64(v), Flags: uint32(flags)})
}

//export ho_soft_cuStreamWriteValue64
func ho_soft_cuStreamWriteValue64(s C.ho_stream, p C.ho_devptr, v C.uint64_t, flags C.uint32_t) C.ho_result {
	return memOp("cuStreamWriteValue64", s, engine.MemOp{Kind: engine.OpWrite64, Addr: uint64(p), Value: uint64(v), Flags: uint32(flags)})
}

//export ho_soft_cuEventCreate
func ho_soft_cuEventCreate(out *C.ho_event, flags C.uint32_t) C.ho_result {
	return call("cuEventCreate", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		h, c := e.EventCreate(t, uint32(flags))
		return put(out, C.ho_event(h), c)
	})
}

//export ho_soft_cuEventDestroy
func ho_soft_cuEventDestroy(ev C.ho_event) C.ho_result {
	return call("cuEventDestroy", func(e *eng, t *thr) code { return e.EventDestroy(t, engine.Handle(ev)) })
}

//export ho_soft_cuEventRecord
func ho_soft_cuEventRecord(ev C.ho_event, s C.ho_stream) C.ho_result {
	return call("cuEventRecord", func(e *eng, t *thr) code {
		return e.EventRecord(t, engine.Handle(ev), engine.Handle(s), 0)
	})
}

//export ho_soft_cuEventRecordWithFlags
func ho_soft_cuEventRecordWithFlags(ev C.ho_event, s C.ho_stream, flags C.uint32_t) C.ho_result {
	return call("cuEventRecordWithFlags", func(e *eng, t *thr) code {
		return e.EventRecord(t, engine.Handle(ev), engine.Handle(s), uint32(flags))
	})
}

//export ho_soft_cuEventQuery
func ho_soft_cuEventQuery(ev C.ho_event) C.ho_result {
	return call("cuEventQuery", func(e *eng, t *thr) code { return e.EventQuery(t, engine.Handle(ev)) })
}

//export ho_soft_cuEventSynchronize
func ho_soft_cuEventSynchronize(ev C.ho_event) C.ho_result {
	return call("cuEventSynchronize", func(e *eng, t *thr) code { return e.EventSynchronize(t, engine.Handle(ev)) })
}

//export ho_soft_cuEventElapsedTime
func ho_soft_cuEventElapsedTime(out *C.float, start, end C.ho_event) C.ho_result {
	return call("cuEventElapsedTime", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		v, c := e.EventElapsed(t, engine.Handle(start), engine.Handle(end))
		return put(out, C.float(v), c)
	})
}
