package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-handoff/handoff/internal/hunt"
)

// ParamInfo is one parameter of a kernel. Align 0 means the size, which must then be a
// power of two.
type ParamInfo struct{ Size, Align uint32 }

// KernelFunc is the body of a kernel: it does the work of the whole grid.
type KernelFunc func(*Launch)

// kernelDef is a registered kernel.
type kernelDef struct {
	name    string
	params  []ParamInfo
	offsets []uint64
	size    uint64
	fn      KernelFunc
}

var (
	kernelMu sync.RWMutex
	kernels  = map[string]*kernelDef{}
)

// ErrKernel is wrapped by the errors of Register.
var ErrKernel = errors.New("bad kernel")

// Register makes a Go function a kernel under a name that images can refer to. A second
// registration of a name replaces the first for images loaded later.
func Register(name string, params []ParamInfo, fn KernelFunc) error {
	if name == "" || strings.ContainsAny(name, " \t\n=#\x00") || fn == nil {
		return fmt.Errorf("soft: register kernel %q: %w", name, ErrKernel)
	}
	d := &kernelDef{name: name, params: slices.Clone(params), fn: fn}
	for i, p := range d.params {
		if p.Align == 0 {
			p.Align = p.Size
			d.params[i].Align = p.Size
		}
		if p.Size == 0 || p.Size > 4096 || p.Align&(p.Align-1) != 0 || p.Align > 256 {
			return fmt.Errorf("soft: register kernel %q: parameter %d of %d bytes, alignment %d: %w", name, i, p.Size, p.Align, ErrKernel)
		}
		off, _ := roundUp(d.size, uint64(p.Align))
		d.offsets = append(d.offsets, off)
		d.size = off + uint64(p.Size)
	}
	kernelMu.Lock()
	kernels[name] = d
	kernelMu.Unlock()
	return nil
}

// Launch is one launch of a kernel, as its function sees it. It is valid during the call.
type Launch struct {
	Name        string    // as registered
	Grid, Block [3]uint32 // blocks, threads
	Cluster     [3]uint32 // blocks; zero when not given
	SharedBytes uint32
	Device      int // ordinal
	Stream      uint64

	def  *kernelDef
	args []byte
	r    *runner
	// In a hunt: the ranges that the kernel asked for so far, and copies of those of which it is
	// seen only afterwards what it wrote.
	reads, writes []Range
	both          []kept
}

// kept is memory as it was before a kernel.
type kept struct {
	addr, elem uint64
	was, is    []byte
}

// Args is the number of parameters.
func (l *Launch) Args() int { return len(l.def.params) }

// Arg is the bytes of parameter i.
func (l *Launch) Arg(i int) []byte {
	o := l.def.offsets[i]
	return l.args[o : o+uint64(l.def.params[i].Size)]
}

// Uint64 is parameter i as an unsigned integer of its size.
func (l *Launch) Uint64(i int) uint64 {
	switch b := l.Arg(i); len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(b))
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	case 8:
		return binary.NativeEndian.Uint64(b)
	}
	panic(fault(LaunchFailure))
}

// Ptr is parameter i as a device address.
func (l *Launch) Ptr(i int) uint64 { return l.Uint64(i) }

// Int64 is parameter i as a signed integer of its size.
func (l *Launch) Int64(i int) int64 {
	shift := 64 - 8*l.def.params[i].Size
	return int64(l.Uint64(i)<<shift) >> shift
}

// Float64 is parameter i as a number: a float of 4 or 8 bytes.
func (l *Launch) Float64(i int) float64 {
	switch b := l.Arg(i); len(b) {
	case 4:
		return float64(math.Float32frombits(binary.NativeEndian.Uint32(b)))
	case 8:
		return math.Float64frombits(binary.NativeEndian.Uint64(b))
	}
	panic(fault(LaunchFailure))
}

// Threads is the number of threads of the whole grid.
func (l *Launch) Threads() uint64 {
	n := uint64(1)
	for i := range 3 {
		n *= uint64(l.Grid[i]) * uint64(l.Block[i])
	}
	return n
}

// Read gives n bytes of device memory for reading. A bad address ends the kernel as an
// illegal access does.
func (l *Launch) Read(addr, n uint64) []byte {
	b := l.bytes(addr, n)
	if l.r.hunt != nil {
		l.reads = extend(l.reads, addr, n)
	}
	return b
}

// Write gives n bytes of device memory for writing.
func (l *Launch) Write(addr, n uint64) []byte {
	b := l.bytes(addr, n)
	if l.r.hunt != nil {
		l.writes = extend(l.writes, addr, n)
	}
	return b
}

// Bytes gives n bytes of device memory for reading and writing. A hunt counts all of them
// as read, and as written those that have changed by its end: where another kernel writes them at that very
// time, which is a race already, this one counts as a writer, too.
func (l *Launch) Bytes(addr, n uint64) []byte { return l.Elements(addr, n, 1) }

// Elements is Bytes for n elements of size bytes: an element of which a byte has changed
// counts as written.
func (l *Launch) Elements(addr, n, size uint64) []byte {
	if size != 0 && n > ^uint64(0)/size {
		panic(fault(IllegalAddress))
	}
	n *= size
	b := l.bytes(addr, n)
	if l.r.hunt != nil && n > 0 {
		l.reads = extend(l.reads, addr, n)
		l.both = append(l.both, kept{addr: addr, elem: size, was: bytes.Clone(b), is: b})
	}
	return b
}

// extend adds a range to a list, joining it with the last one where they touch.
func extend(r []Range, addr, n uint64) []Range {
	if n == 0 {
		return r
	}
	if k := len(r) - 1; k >= 0 && r[k].Addr+r[k].Len == addr {
		r[k].Len += n
		return r
	}
	if len(r) == maxPieces {
		return r
	}
	return append(r, Range{addr, n})
}

// maxPieces is how many separate pieces of memory of a kernel the hunt looks at: the first. A
// kernel that goes through strided memory element by element has many, and one of them tells of a race as
// well as all.
const maxPieces = 1024

// touched tells the hunt what the kernel did.
func (l *Launch) touched() {
	for _, k := range l.both {
		for i := uint64(0); i < uint64(len(k.was)); {
			if bytes.Equal(k.was[i:min(i+4096, uint64(len(k.was)))], k.is[i:min(i+4096, uint64(len(k.was)))]) {
				i += 4096
				i -= i % k.elem
				continue
			}
			for end := min(i+4096, uint64(len(k.was))); i < end; i += k.elem {
				if e := min(i+k.elem, uint64(len(k.was))); !bytes.Equal(k.was[i:e], k.is[i:e]) {
					l.writes = extend(l.writes, k.addr+i, e-i)
				}
			}
		}
	}
	l.r.note(hunt.Read, l.reads)
	l.r.note(hunt.Write, l.writes)
}

// Fail ends the kernel with a code that sticks to the context.
func (l *Launch) Fail(c Code) { panic(fault(c)) }

// SetCondition sets the value of a conditional handle of the graph that is running.
func (l *Launch) SetCondition(handle uint64, value uint32) {
	if l.r.conds == nil || !l.r.conds.set(handle, value) {
		panic(fault(InvalidValue))
	}
}

// bytes translates an address as a kernel may: memory of its device, of peers whose
// access is enabled, pool memory with access granted, pinned and managed memory.
func (l *Launch) bytes(addr, n uint64) []byte {
	if n == 0 {
		return nil
	}
	e, c := l.r.e, l.r.ctx
	if addr == 0 || addr+n < addr {
		panic(fault(IllegalAddress))
	}
	e.space.mu.RLock()
	a := e.space.anyLocked(addr, n)
	e.space.mu.RUnlock()
	if a == nil {
		panic(fault(IllegalAddress))
	}
	if !c.canUse(a) {
		panic(fault(IllegalAddress))
	}
	return a.bytes(addr, n)
}

// anyLocked finds an allocation that holds the whole range, also one whose
// stream-ordered free is queued.
func (s *space) anyLocked(addr, n uint64) *alloc {
	if a, ok := s.findLocked(addr); ok && addr+n <= a.end() {
		return a
	}
	for _, a := range s.sorted {
		if a.base > addr {
			break
		}
		if addr+n <= a.end() {
			return a
		}
	}
	return nil
}

// kernelWork is one launch.
type kernelWork struct {
	def    *kernelDef
	fn     *function // the handle it was launched by, for graph nodes
	cfg    LaunchConfig
	args   []byte
	viaKer bool
	attrs  map[int32][64]byte
	mem    Memory // of a node that was asked for its parameters
}

func (*kernelWork) nodeType() NodeType { return NodeKernel }

func (w *kernelWork) run(r *runner) Code {
	// A node of a graph runs where its function is, which may be another device than that of
	// the stream that the graph is launched into.
	defer func(c *Context) { r.ctx = c }(r.ctx)
	r.ctx = w.fn.mod.ctx
	l := &Launch{
		Name: w.def.name, Grid: w.cfg.Grid, Block: w.cfg.Block, Cluster: w.cfg.Cluster,
		SharedBytes: w.cfg.Shared, Device: r.ctx.dev.ordinal, def: w.def, args: w.args, r: r,
	}
	if r.s != nil {
		l.Stream = r.s.id
	}
	if r.hunt != nil {
		defer l.touched()
	}
	w.def.fn(l)
	return Success
}

// module is code loaded into a context.
type module struct {
	e       *Engine
	ctx     *Context
	h       Handle
	lib     *library
	img     *image
	funcs   map[string]*function
	globals map[string]*alloc
}

// library is code that loads itself into each context that uses it.
type library struct {
	e       *Engine
	h       Handle
	img     *image
	kernels map[string]*kernel
	modules map[*Context]*module
}

// kernel is a kernel of a library, for every context.
type kernel struct {
	lib   *library
	h     Handle
	name  string
	def   *kernelDef
	attrs map[int]map[int32]int32 // by device ordinal
}

// function is a kernel in a context.
type function struct {
	mod   *module
	h     Handle
	name  string
	def   *kernelDef
	ker   *kernel
	attrs map[int32]int32
}

// ImageMagic is the first line of an image of the software device. After it come lines
//
//	kernel NAME              the registered kernel NAME
//	kernel NAME = REGISTERED under another name
//	global NAME SIZE [HEX]   a variable, zero or with its first bytes given
//
// and comments that begin with #.
const ImageMagic = "handoff-soft-image 1"

type image struct {
	kernels []imageKernel
	globals []imageGlobal
}

type imageKernel struct {
	name string
	def  *kernelDef
}

type imageGlobal struct {
	name string
	size uint64
	init []byte
}

// parseImage reads an image. Code for a real device gives NoBinaryForGPU, anything else
// that is no image InvalidImage.
func parseImage(b []byte) (*image, Code) {
	if !bytes.HasPrefix(b, []byte(ImageMagic)) {
		for _, m := range []string{"\x7fELF", "\x50\xed\x55\xba", "\xb1\x43\x62\x46", ".version", "//"} {
			if bytes.HasPrefix(b, []byte(m)) {
				return nil, NoBinaryForGPU
			}
		}
		return nil, InvalidImage
	}
	img := &image{}
	for i, line := range strings.Split(string(b), "\n") {
		if i == 0 {
			if strings.TrimSpace(line) != ImageMagic {
				return nil, InvalidImage
			}
			continue
		}
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "kernel" && (len(f) == 2 || len(f) == 4 && f[2] == "="):
			kernelMu.RLock()
			d := kernels[f[len(f)-1]]
			kernelMu.RUnlock()
			if d == nil {
				return nil, NoBinaryForGPU
			}
			img.kernels = append(img.kernels, imageKernel{f[1], d})
		case f[0] == "global" && (len(f) == 3 || len(f) == 4):
			n, err := strconv.ParseUint(f[2], 0, 40)
			if err != nil || n == 0 {
				return nil, InvalidImage
			}
			g := imageGlobal{name: f[1], size: n}
			if len(f) == 4 {
				if g.init, err = hex.DecodeString(f[3]); err != nil || uint64(len(g.init)) > n {
					return nil, InvalidImage
				}
			}
			img.globals = append(img.globals, g)
		default:
			return nil, InvalidImage
		}
	}
	return img, Success
}

// loadModule makes a module of an image in a context. The caller holds nothing.
func (e *Engine) loadModule(c *Context, img *image, lib *library) (*module, Code) {
	m := &module{e: e, ctx: c, img: img, lib: lib, funcs: make(map[string]*function), globals: make(map[string]*alloc)}
	for _, g := range img.globals {
		a, code := e.deviceAlloc(c.dev, c, g.size)
		if code != Success {
			e.freeGlobals(m)
			return nil, code
		}
		a.owner = m
		b := a.bytes(a.base, a.size)
		clear(b)
		copy(b, g.init)
		m.globals[g.name] = a
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m.h = e.newHandle(m)
	for _, k := range img.kernels {
		f := &function{mod: m, name: k.name, def: k.def, attrs: make(map[int32]int32)}
		if lib != nil {
			f.ker = lib.kernels[k.name]
		}
		f.h = e.newHandle(f)
		m.funcs[k.name] = f
	}
	return m, Success
}

func (e *Engine) freeGlobals(m *module) {
	e.space.mu.Lock()
	defer e.space.mu.Unlock()
	for _, a := range m.globals {
		if e.space.removeLocked(a) {
			e.space.giveBackLocked(a)
		}
	}
}

// ModuleLoad is cuModuleLoadData.
func (e *Engine) ModuleLoad(t *Thread, image []byte) (Handle, Code) {
	c, code := e.unsafeContext(t)
	if code != Success {
		return 0, code
	}
	img, code := parseImage(image)
	if code != Success {
		return 0, code
	}
	m, code := e.loadModule(c, img, nil)
	if code != Success {
		return 0, code
	}
	return m.h, Success
}

// unload takes a module's handles away and frees its variables, after the work of its context.
func (e *Engine) unload(m *module) {
	e.mu.Lock()
	delete(e.handles, m.h)
	for _, f := range m.funcs {
		delete(e.handles, f.h)
	}
	var tails []*task
	if m.ctx.alive {
		tails = m.ctx.tails()
	}
	over := e.passed(nil, m.ctx)
	e.mu.Unlock()
	for _, t := range tails {
		t.wait()
	}
	e.learned(over)
	e.freeGlobals(m)
}

// ModuleUnload is cuModuleUnload.
func (e *Engine) ModuleUnload(t *Thread, h Handle) Code {
	if _, code := t.context(); code != Success {
		return code
	}
	m, ok := lookup[*module](e, h)
	if !ok {
		return InvalidHandle
	}
	if m.lib != nil {
		return NotPermitted
	}
	e.unload(m)
	return Success
}

// ModuleFunction is cuModuleGetFunction.
func (e *Engine) ModuleFunction(h Handle, name string) (Handle, Code) {
	m, ok := lookup[*module](e, h)
	if !ok {
		return 0, InvalidHandle
	}
	f := m.funcs[name]
	if f == nil {
		return 0, NotFound
	}
	return f.h, Success
}

// ModuleFunctions is cuModuleEnumerateFunctions, in the order of the image.
func (e *Engine) ModuleFunctions(h Handle) ([]Handle, Code) {
	m, ok := lookup[*module](e, h)
	if !ok {
		return nil, InvalidHandle
	}
	var r []Handle
	for _, k := range m.img.kernels {
		r = append(r, m.funcs[k.name].h)
	}
	return r, Success
}

// ModuleGlobal is cuModuleGetGlobal.
func (e *Engine) ModuleGlobal(h Handle, name string) (addr, size uint64, code Code) {
	m, ok := lookup[*module](e, h)
	if !ok {
		return 0, 0, InvalidHandle
	}
	a := m.globals[name]
	if a == nil {
		return 0, 0, NotFound
	}
	return a.base, a.size, Success
}

// libraries returns the live libraries. The caller holds e.mu.
func (e *Engine) libraries() []*library {
	var r []*library
	for _, x := range e.handles {
		if l, ok := x.(*library); ok {
			r = append(r, l)
		}
	}
	return r
}

// LibraryLoad is cuLibraryLoadData; it needs no context.
func (e *Engine) LibraryLoad(image []byte) (Handle, Code) {
	img, code := parseImage(image)
	if code != Success {
		return 0, code
	}
	l := &library{e: e, img: img, kernels: make(map[string]*kernel), modules: make(map[*Context]*module)}
	e.mu.Lock()
	defer e.mu.Unlock()
	l.h = e.newHandle(l)
	for _, k := range img.kernels {
		kk := &kernel{lib: l, name: k.name, def: k.def, attrs: make(map[int]map[int32]int32)}
		kk.h = e.newHandle(kk)
		l.kernels[k.name] = kk
	}
	return l.h, Success
}

// LibraryUnload is cuLibraryUnload.
func (e *Engine) LibraryUnload(h Handle) Code {
	l, ok := lookup[*library](e, h)
	if !ok {
		return InvalidHandle
	}
	e.mu.Lock()
	delete(e.handles, h)
	for _, k := range l.kernels {
		delete(e.handles, k.h)
	}
	mods := slices.Collect(maps.Values(l.modules))
	l.modules = make(map[*Context]*module)
	e.mu.Unlock()
	for _, m := range mods {
		e.unload(m)
	}
	return Success
}

// LibraryKernel is cuLibraryGetKernel.
func (e *Engine) LibraryKernel(h Handle, name string) (Handle, Code) {
	l, ok := lookup[*library](e, h)
	if !ok {
		return 0, InvalidHandle
	}
	k := l.kernels[name]
	if k == nil {
		return 0, NotFound
	}
	return k.h, Success
}

// LibraryKernels is cuLibraryEnumerateKernels, in the order of the image.
func (e *Engine) LibraryKernels(h Handle) ([]Handle, Code) {
	l, ok := lookup[*library](e, h)
	if !ok {
		return nil, InvalidHandle
	}
	var r []Handle
	for _, k := range l.img.kernels {
		r = append(r, l.kernels[k.name].h)
	}
	return r, Success
}

// moduleIn returns the library's module in a context, loading it there at first use.
func (l *library) moduleIn(c *Context) (*module, Code) {
	l.e.mu.Lock()
	m := l.modules[c]
	l.e.mu.Unlock()
	if m != nil {
		return m, Success
	}
	m, code := l.e.loadModule(c, l.img, l)
	if code != Success {
		return nil, code
	}
	l.e.mu.Lock()
	other := l.modules[c]
	if other == nil {
		l.modules[c] = m
	}
	l.e.mu.Unlock()
	if other != nil {
		l.e.unload(m)
		return other, Success
	}
	return m, Success
}

// LibraryModule is cuLibraryGetModule.
func (e *Engine) LibraryModule(t *Thread, h Handle) (Handle, Code) {
	c, code := t.context()
	if code != Success {
		return 0, code
	}
	l, ok := lookup[*library](e, h)
	if !ok {
		return 0, InvalidHandle
	}
	m, code := l.moduleIn(c)
	if code != Success {
		return 0, code
	}
	return m.h, Success
}

// LibraryGlobal is cuLibraryGetGlobal.
func (e *Engine) LibraryGlobal(t *Thread, h Handle, name string) (addr, size uint64, code Code) {
	mh, code := e.LibraryModule(t, h)
	if code != Success {
		return 0, 0, code
	}
	return e.ModuleGlobal(mh, name)
}

func (e *Engine) kernel(h Handle) (*kernel, Code) {
	k, ok := lookup[*kernel](e, h)
	if !ok {
		return nil, InvalidHandle
	}
	return k, Success
}

// funcIn resolves a function handle, or a kernel handle in its place, for context c.
func (e *Engine) funcIn(h Handle, c *Context) (*function, Code) {
	switch x := e.object(h).(type) {
	case *function:
		return x, Success
	case *kernel:
		if c == nil {
			return nil, InvalidContext
		}
		m, code := x.lib.moduleIn(c)
		if code != Success {
			return nil, code
		}
		return m.funcs[x.name], Success
	}
	return nil, InvalidHandle
}

func (e *Engine) object(h Handle) any {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.handles[h]
}

// KernelFunction is cuKernelGetFunction.
func (e *Engine) KernelFunction(t *Thread, h Handle) (Handle, Code) {
	c, code := t.context()
	if code != Success {
		return 0, code
	}
	if _, code := e.kernel(h); code != Success {
		return 0, code
	}
	f, code := e.funcIn(h, c)
	if code != Success {
		return 0, code
	}
	return f.h, Success
}

// KernelLibrary is cuKernelGetLibrary.
func (e *Engine) KernelLibrary(h Handle) (Handle, Code) {
	k, code := e.kernel(h)
	if code != Success {
		return 0, code
	}
	return k.lib.h, Success
}

// FuncModule is cuFuncGetModule.
func (e *Engine) FuncModule(h Handle) (Handle, Code) {
	f, ok := lookup[*function](e, h)
	if !ok {
		return 0, InvalidHandle
	}
	return f.mod.h, Success
}

// KernelName is the name of a kernel or function.
func (e *Engine) KernelName(h Handle) (string, Code) {
	switch x := e.object(h).(type) {
	case *function:
		return x.name, Success
	case *kernel:
		return x.name, Success
	}
	return "", InvalidHandle
}

func (e *Engine) def(h Handle) (*kernelDef, Code) {
	switch x := e.object(h).(type) {
	case *function:
		return x.def, Success
	case *kernel:
		return x.def, Success
	}
	return nil, InvalidHandle
}

// Param is the place of one parameter in the packed arguments.
type Param struct{ Offset, Size uint64 }

// Params lists the parameters of a kernel or function and the size of its packed arguments.
func (e *Engine) Params(h Handle) (p []Param, total uint64, code Code) {
	d, code := e.def(h)
	if code != Success {
		return nil, 0, code
	}
	return d.list(), d.size, Success
}

func (d *kernelDef) list() []Param {
	p := make([]Param, len(d.params))
	for i := range p {
		p[i] = Param{d.offsets[i], uint64(d.params[i].Size)}
	}
	return p
}

// Function attributes.
const (
	funcMaxThreads      = 0
	funcShared          = 1
	funcConst           = 2
	funcLocal           = 3
	funcRegs            = 4
	funcPTX             = 5
	funcBinary          = 6
	funcCacheCA         = 7
	funcMaxDynShared    = 8
	funcCarveout        = 9
	funcClusterRequired = 10
	funcClusterPolicy   = 15
)

func defaultFuncAttr(attr int32) (int32, bool) {
	switch attr {
	case funcMaxThreads:
		return maxThreadsPerBlock, true
	case funcRegs:
		return 32, true
	case funcPTX, funcBinary:
		return ccMajor*10 + ccMinor, true
	case funcMaxDynShared:
		return maxSharedPerBlock, true
	case funcCarveout:
		return -1, true
	}
	return 0, attr >= 0 && attr <= funcClusterPolicy
}

func checkFuncAttr(attr, v int32) Code {
	switch {
	case attr == funcMaxDynShared && (v < 0 || v > maxSharedOptin):
		return InvalidValue
	case attr == funcCarveout && (v < -1 || v > 100):
		return InvalidValue
	case attr >= funcMaxDynShared && attr <= funcClusterPolicy && attr != funcClusterRequired:
		return Success
	}
	return InvalidValue
}

// FuncAttribute is cuFuncGetAttribute.
func (e *Engine) FuncAttribute(t *Thread, h Handle, attr int32) (int32, Code) {
	f, code := e.funcIn(h, t.current())
	if code != Success {
		return 0, code
	}
	v, ok := defaultFuncAttr(attr)
	if !ok {
		return 0, InvalidValue
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return f.attr(attr, v), Success
}

// attr is an attribute of a function: its own, its kernel's for the device, or the default.
func (f *function) attr(attr, def int32) int32 {
	if v, ok := f.attrs[attr]; ok {
		return v
	}
	if f.ker != nil {
		if v, ok := f.ker.attrs[f.mod.ctx.dev.ordinal][attr]; ok {
			return v
		}
	}
	return def
}

// FuncSetAttribute is cuFuncSetAttribute.
func (e *Engine) FuncSetAttribute(t *Thread, h Handle, attr, v int32) Code {
	f, code := e.funcIn(h, t.current())
	if code != Success {
		return code
	}
	if code := checkFuncAttr(attr, v); code != Success {
		return code
	}
	e.mu.Lock()
	f.attrs[attr] = v
	e.mu.Unlock()
	return Success
}

// KernelAttribute is cuKernelGetAttribute.
func (e *Engine) KernelAttribute(h Handle, attr int32, dev int) (int32, Code) {
	k, code := e.kernel(h)
	if code != Success {
		return 0, code
	}
	if _, code := e.device(dev); code != Success {
		return 0, code
	}
	v, ok := defaultFuncAttr(attr)
	if !ok {
		return 0, InvalidValue
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s, ok := k.attrs[dev][attr]; ok {
		v = s
	}
	return v, Success
}

// KernelSetAttribute is cuKernelSetAttribute.
func (e *Engine) KernelSetAttribute(h Handle, attr, v int32, dev int) Code {
	k, code := e.kernel(h)
	if code != Success {
		return code
	}
	if _, code := e.device(dev); code != Success {
		return code
	}
	if code := checkFuncAttr(attr, v); code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if k.attrs[dev] == nil {
		k.attrs[dev] = make(map[int32]int32)
	}
	k.attrs[dev][attr] = v
	return Success
}

// LaunchConfig is the shape of a launch.
type LaunchConfig struct {
	Grid, Block, Cluster [3]uint32
	Shared               uint32
	Cooperative          bool
}

// newLaunch checks a launch. args are packed and are kept.
func (e *Engine) newLaunch(c *Context, fh Handle, cfg LaunchConfig, args []byte) (*kernelWork, Code) {
	f, code := e.funcIn(fh, c)
	if code != Success {
		return nil, code
	}
	if c != nil && f.mod.ctx != c {
		return nil, InvalidHandle
	}
	threads := uint64(1)
	for i := range 3 {
		if cfg.Grid[i] == 0 || cfg.Block[i] == 0 {
			return nil, InvalidValue
		}
		threads *= uint64(cfg.Block[i])
		if cfg.Cluster[i] != 0 && cfg.Grid[i]%cfg.Cluster[i] != 0 {
			return nil, InvalidClusterSize
		}
	}
	if threads > maxThreadsPerBlock || cfg.Block[0] > 1024 || cfg.Block[1] > 1024 || cfg.Block[2] > 64 ||
		cfg.Grid[0] > 1<<31-1 || cfg.Grid[1] > 65535 || cfg.Grid[2] > 65535 {
		return nil, InvalidValue
	}
	e.mu.Lock()
	limit := f.attr(funcMaxDynShared, maxSharedPerBlock)
	e.mu.Unlock()
	if int64(cfg.Shared) > int64(limit) {
		return nil, InvalidValue
	}
	if uint64(len(args)) < f.def.size {
		return nil, InvalidValue
	}
	if cfg.Cooperative {
		blocks := uint64(cfg.Grid[0]) * uint64(cfg.Grid[1]) * uint64(cfg.Grid[2])
		if blocks > uint64(occupancy(int(threads), uint64(cfg.Shared)))*smCount {
			return nil, CooperativeTooLarge
		}
	}
	_, viaKer := e.object(fh).(*kernel)
	return &kernelWork{def: f.def, fn: f, cfg: cfg, args: args, viaKer: viaKer}, Success
}

// LaunchKernel is cuLaunchKernel with packed arguments, which it keeps.
func (e *Engine) LaunchKernel(t *Thread, fh Handle, cfg LaunchConfig, args []byte, sh Handle) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	w, code := e.newLaunch(s.ctx, fh, cfg, args)
	if code != Success {
		return code
	}
	_, code = e.submit(t, s, w)
	return code
}

// occupancy is how many blocks of a size fit a multiprocessor.
func occupancy(threads int, shared uint64) int {
	if threads <= 0 || threads > maxThreadsPerBlock {
		return 0
	}
	warps := (threads + 31) / 32
	n := min(threadsPerSM/32/warps, blocksPerSM)
	if shared > 0 {
		n = min(n, int(sharedPerSM/(shared+1024)))
	}
	return n
}

// Occupancy is cuOccupancyMaxActiveBlocksPerMultiprocessor.
func (e *Engine) Occupancy(t *Thread, h Handle, threads int, shared uint64) (int, Code) {
	if _, code := e.funcIn(h, t.current()); code != Success {
		return 0, code
	}
	if threads <= 0 {
		return 0, InvalidValue
	}
	return occupancy(threads, shared), Success
}

// PotentialBlockSize is cuOccupancyMaxPotentialBlockSize; shared gives the dynamic shared
// memory of a block size.
func (e *Engine) PotentialBlockSize(t *Thread, h Handle, limit int, shared func(int) uint64) (grid, block int, code Code) {
	if _, code := e.funcIn(h, t.current()); code != Success {
		return 0, 0, code
	}
	if limit <= 0 || limit > maxThreadsPerBlock {
		limit = maxThreadsPerBlock
	}
	best := 0
	for b := limit; b > 0; b = (b - 1) / 32 * 32 {
		n := occupancy(b, shared(b))
		if n*b > best {
			best, block, grid = n*b, b, n*smCount
		}
	}
	return grid, block, Success
}

// AvailableShared is cuOccupancyAvailableDynamicSMemPerBlock.
func (e *Engine) AvailableShared(t *Thread, h Handle, blocks, threads int) (uint64, Code) {
	if _, code := e.funcIn(h, t.current()); code != Success {
		return 0, code
	}
	if blocks <= 0 || threads <= 0 {
		return 0, InvalidValue
	}
	return min(sharedPerSM/uint64(blocks)-1024, maxSharedPerBlock), Success
}
