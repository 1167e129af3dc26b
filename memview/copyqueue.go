package memview

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview/internal/kernels"
	"github.com/go-handoff/handoff/stream"
)

// How a planned copy becomes driver calls and kernels.

// denseSteps makes one side of a plan dense, in the order of its axes.
func (p *copyPlan) denseSteps(steps *[MaxDims]int64) {
	step := p.item
	for i := p.n - 1; i >= 0; i-- {
		steps[i] = step
		step *= p.shape[i]
	}
}

// run1 returns the bytes of a dense piece of one side.
func (p *copyPlan) run1(steps *[MaxDims]int64) int64 {
	run := p.item
	for i := p.n - 1; i >= 0 && steps[i] == run; i-- {
		run *= p.shape[i]
	}
	return run
}

// maxPitch is the largest distance between rows that the driver's rectangle
// copies take.
const maxPitch = 1<<31 - 1

// box returns the number of axes, 1 to 3, if the driver can do the whole copy
// in one call, and 0 otherwise.
func (p *copyPlan) box() int {
	if p.n == 0 {
		return 1
	}
	last := p.n - 1
	if p.n > 3 || p.dst[last] != p.item || p.src[last] != p.item {
		return 0
	}
	width := p.shape[last] * p.item
	if p.n == 1 {
		return 1
	}
	for _, pitch := range []int64{p.dst[last-1], p.src[last-1]} {
		if pitch < width || pitch > maxPitch {
			return 0
		}
	}
	if p.n == 2 {
		return 2
	}
	for _, s := range [][2]int64{{p.dst[0], p.dst[1]}, {p.src[0], p.src[1]}} {
		if s[0]%s[1] != 0 || s[0]/s[1] < p.shape[1] {
			return 0
		}
	}
	return 3
}

// direction says which side of a copy is host memory.
type direction int

const (
	onDevice direction = iota
	fromHost
	toHost
)

// queue copies between addresses that the device of the stream reaches.
func (t *transfer) queue(p *copyPlan, dst, src uint64, dir direction) error {
	box := p.box()
	if box == 1 {
		return t.err("copy", t.d.MemcpyAsync(t.ctx, driver.DevicePtr(dst+uint64(p.dstBase)), driver.DevicePtr(src+uint64(p.srcBase)), uintptr(p.bytes()), t.s))
	}
	k := *p
	k.fit(dst, src)
	if box > 0 {
		// The copy engines like long rows. On the device a kernel is as good,
		// unless it has to go by single bytes.
		if width := p.shape[p.n-1] * p.item; dir != onDevice && width >= directRun || dir == onDevice && k.item < 4 {
			err := t.queueBox(p, box, dst, src)
			if !errors.Is(err, driver.ErrInvalidValue) {
				return err
			}
			// The driver may refuse distances between rows that it did not
			// choose itself.
		}
	}
	return t.launch(&k, dst, src, dir)
}

// queueBox is a copy of rows, or of planes of rows, by the driver.
func (t *transfer) queueBox(p *copyPlan, box int, dst, src uint64) error {
	last := p.n - 1
	d, s := driver.DevicePtr(dst+uint64(p.dstBase)), driver.DevicePtr(src+uint64(p.srcBase))
	if box == 2 {
		c := driver.Memcpy2D{
			SrcType: driver.MemoryTypeUnified, SrcDevice: s, SrcPitch: uintptr(p.src[0]),
			DstType: driver.MemoryTypeUnified, DstDevice: d, DstPitch: uintptr(p.dst[0]),
			WidthBytes: uintptr(p.shape[1] * p.item), Height: uintptr(p.shape[0]),
		}
		return t.err("copy rows", t.d.Memcpy2DAsync(t.ctx, &c, t.s))
	}
	c := driver.Memcpy3D{
		SrcType: driver.MemoryTypeUnified, SrcDevice: s, SrcPitch: uintptr(p.src[1]), SrcHeight: uintptr(p.src[0] / p.src[1]),
		DstType: driver.MemoryTypeUnified, DstDevice: d, DstPitch: uintptr(p.dst[1]), DstHeight: uintptr(p.dst[0] / p.dst[1]),
		WidthBytes: uintptr(p.shape[last] * p.item), Height: uintptr(p.shape[1]), Depth: uintptr(p.shape[0]),
	}
	return t.err("copy planes", t.d.Memcpy3DAsync(t.ctx, &c, t.s))
}

// contextOf returns the primary context of a device, in which its memory is.
func contextOf(ordinal int32) (driver.ContextHandle, error) {
	d, err := device.Open(int(ordinal))
	if err != nil {
		return 0, err
	}
	c, err := d.PrimaryContext()
	if err != nil {
		return 0, err
	}
	return c.Handle(), nil
}

// memcpyPeer copies a dense block between two devices. The driver finds the
// way, with peer access or without.
func (t *transfer) memcpyPeer(dst uint64, to int32, src uint64, from int32, n int64) error {
	a, err := contextOf(to)
	if err != nil {
		return err
	}
	b, err := contextOf(from)
	if err != nil {
		return err
	}
	return t.err("copy between devices", t.d.MemcpyPeerAsync(t.ctx, driver.DevicePtr(dst), a, driver.DevicePtr(src), b, uintptr(n), t.s))
}

// peerBox is a copy of a block, rows or planes between two devices.
func (t *transfer) peerBox(p *copyPlan, d, f *side) error {
	dst, src := d.addr+uint64(p.dstBase), f.addr+uint64(p.srcBase)
	box := p.box()
	if box == 1 {
		return t.memcpyPeer(dst, d.device, src, f.device, p.bytes())
	}
	a, err := contextOf(d.device)
	if err != nil {
		return err
	}
	b, err := contextOf(f.device)
	if err != nil {
		return err
	}
	last := p.n - 1
	c := driver.Memcpy3DPeer{
		SrcType: driver.MemoryTypeDevice, SrcDevice: driver.DevicePtr(src), SrcContext: b, SrcPitch: uintptr(p.src[last-1]), SrcHeight: uintptr(p.shape[last-1]),
		DstType: driver.MemoryTypeDevice, DstDevice: driver.DevicePtr(dst), DstContext: a, DstPitch: uintptr(p.dst[last-1]), DstHeight: uintptr(p.shape[last-1]),
		WidthBytes: uintptr(p.shape[last] * p.item), Height: uintptr(p.shape[last-1]), Depth: 1,
	}
	if box == 3 {
		c.SrcHeight, c.DstHeight = uintptr(p.src[0]/p.src[1]), uintptr(p.dst[0]/p.dst[1])
		c.Depth = uintptr(p.shape[0])
	}
	return t.err("copy between devices", t.d.Memcpy3DPeerAsync(t.ctx, &c, t.s))
}

// fit makes the items words of 1 to 16 bytes to which all addresses and
// strides are aligned: as wide as dense rows allow, as narrow as they demand.
func (p *copyPlan) fit(dst, src uint64) {
	m := (dst + uint64(p.dstBase)) | (src + uint64(p.srcBase)) | 16
	last := p.n - 1
	dense := p.n > 0 && p.dst[last] == p.item && p.src[last] == p.item
	for i := range p.n {
		if i == last && dense {
			m |= uint64(p.shape[i] * p.item)
			continue
		}
		m |= uint64(p.dst[i]) | uint64(p.src[i])
	}
	if !dense {
		m |= uint64(p.item)
	}
	w := int64(1) << bits.TrailingZeros64(m)
	switch {
	case dense:
		p.shape[last] = p.shape[last] * p.item / w
		p.dst[last], p.src[last] = w, w
		if p.shape[last] == 1 {
			p.n--
		}
	case w < p.item && p.n < MaxDims:
		p.shape[p.n], p.dst[p.n], p.src[p.n] = p.item/w, w, w
		p.n++
	case w < p.item: // no room for another axis
		return
	}
	p.item = w
	if p.n == 0 {
		p.n = 1
		p.shape[0], p.dst[0], p.src[0] = 1, w, w
	}
}

// minTile is the extent that both axes of a transpose must have for the kernel
// that works by tiles.
const minTile = 16

// tiled brings the axis that is dense in src, forwards or backwards, before the
// last one, which is dense in dst, and returns a kernel that works by tiles and
// their number, or nil if tiles do not suit. dst and src are the addresses that
// the plan counts from.
func (p *copyPlan) tiled(dst, src uint64) (*kernels.Tile, int64) {
	last := p.n - 1
	if last < 1 || p.dst[last] != p.item || p.src[last] == p.item || p.shape[last] < minTile {
		return nil, 0
	}
	k := -1
	for i := range last {
		if (p.src[i] == p.item || p.src[i] == -p.item) && p.shape[i] >= minTile {
			k = i
		}
	}
	if k < 0 {
		return nil, 0
	}
	n, d, s := p.shape[k], p.dst[k], p.src[k]
	to, from := p.dstBase, p.srcBase
	if s < 0 { // walk this axis backwards on both sides
		to += (n - 1) * d
		from += (n - 1) * s
		d, s = -d, -s
	}
	align := (dst + uint64(to)) | (src + uint64(from)) | uint64(d) | uint64(p.src[last])
	for i := range last {
		if i != k {
			align |= uint64(p.dst[i]) | uint64(p.src[i])
		}
	}
	t := kernels.Pick(p.item, int64(1)<<bits.TrailingZeros64(align|kernels.Sector), n, p.shape[last])
	if t == nil {
		return nil, 0
	}
	count, ok := mulIf((n+t.Rows-1)/t.Rows, (p.shape[last]+t.Lead+t.Cols-1)/t.Cols, true)
	for i := range last {
		if i != k {
			count, ok = mulIf(count, p.shape[i], ok)
		}
	}
	if !ok || count > 1<<31-1 {
		return nil, 0
	}
	p.dstBase, p.srcBase = to, from
	copy(p.shape[k:last-1], p.shape[k+1:last])
	copy(p.dst[k:last-1], p.dst[k+1:last])
	copy(p.src[k:last-1], p.src[k+1:last])
	p.shape[last-1], p.dst[last-1], p.src[last-1] = n, d, s
	return t, count
}

func mulIf(a, b int64, ok bool) (int64, bool) {
	if !ok {
		return 0, false
	}
	return mul(a, b)
}

const (
	blockThreads = 256
	perThread    = 4       // elements a round
	maxBlocks    = 1 << 16 // more than any device runs at once; blocks go round
	// hostBytes is how much of host memory a kernel reads at a time. With half of that
	// the bus is busy; more is in the way of other copies, and takes multiprocessors.
	hostBytes = 128 << 10
)

// launch copies by a kernel. Axes beyond what a kernel takes become launches
// of their own.
func (t *transfer) launch(p *copyPlan, dst, src uint64, dir direction) error {
	if p.item > 16 || p.item&(p.item-1) != 0 {
		return fail("copy", "", dlpack.ErrNotSupported, "misaligned elements of a view with 64 axes")
	}
	table, err := kernelsOf(t.d)
	if err != nil {
		return err
	}
	outer := max(p.n-kernels.Axes, 0)
	q := *p
	q.n = copy(q.shape[:], p.shape[outer:p.n])
	copy(q.dst[:], p.dst[outer:p.n])
	copy(q.src[:], p.src[outer:p.n])

	a := kernels.Args{Count: 1}
	tile, tiles := q.tiled(dst, src)
	for i := range q.n {
		a.Shape[i], a.DstStep[i], a.SrcStep[i] = uint64(q.shape[i]), q.dst[i], q.src[i]
		a.Count *= uint64(q.shape[i])
	}
	a.N = uint32(q.n)
	name := kernels.Strided(p.item, a.Count >= 1<<31)
	grid := min((a.Count+blockThreads*perThread-1)/(blockThreads*perThread), maxBlocks)
	if dir == fromHost {
		grid = min(grid, hostBytes/uint64(blockThreads*perThread*p.item))
	}
	if tile != nil {
		name = tile.Name
		grid = uint64(tiles)
	}
	k, err := table.kernel(name)
	if err != nil {
		return err
	}
	var index [MaxDims]int64
	to, from := q.dstBase, q.srcBase
	for {
		a.Dst, a.Src = dst+uint64(to), src+uint64(from)
		if res := launchKernel(t, k, uint32(grid), blockThreads, &a); res != driver.Success {
			return t.err("launch "+name, res)
		}
		i := outer - 1
		for ; i >= 0; i-- {
			index[i]++
			to += p.dst[i]
			from += p.src[i]
			if index[i] < p.shape[i] {
				break
			}
			to -= index[i] * p.dst[i]
			from -= index[i] * p.src[i]
			index[i] = 0
		}
		if i < 0 {
			return nil
		}
	}
}

// kernelTable has the kernels of a driver. The library is loaded once and
// kept: the driver makes it ready for each context when it is first used there.
type kernelTable struct {
	d   *driver.Driver
	lib driver.LibraryHandle

	mu    sync.Mutex
	known map[string]driver.KernelHandle
}

var tables struct {
	sync.Mutex
	list []*kernelTable // one a driver: mostly one
}

// ErrNoKernels means that the software device has no copy kernels, because
// package memview/softcopy is not imported.
var ErrNoKernels = errors.New("import memview/softcopy to copy strided memory on the software device")

func kernelsOf(d *driver.Driver) (*kernelTable, error) {
	tables.Lock()
	defer tables.Unlock()
	for _, t := range tables.list {
		if t.d == d {
			return t, nil
		}
	}
	image := kernels.PTX()
	if d.Provider() == driver.ProviderSoft {
		if image = kernels.Soft(); image == nil {
			return nil, ErrNoKernels
		}
	}
	lib, res := d.LibraryLoadData(image, nil, nil, nil, nil)
	if res != driver.Success {
		return nil, fmt.Errorf("load copy kernels: %w", res.Err())
	}
	t := &kernelTable{d: d, lib: lib, known: make(map[string]driver.KernelHandle)}
	tables.list = append(tables.list, t)
	return t, nil
}

func (t *kernelTable) kernel(name string) (driver.KernelHandle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, ok := t.known[name]; ok {
		return k, nil
	}
	k, res := t.d.LibraryGetKernel(t.lib, name)
	if res != driver.Success {
		return 0, fmt.Errorf("find copy kernel %s: %w", name, res.Err())
	}
	t.known[name] = k
	return k, nil
}

// PrepareCopies does beforehand what the first [CopyOn] on a device would do on
// the way, and what takes long or may wait for the device: it loads the kernels
// into the context of s, compiling them if the driver has not done so before,
// and gets pinned memory for staging, which [Flush] frees. Programs that
// capture copies, or that copy on streams which wait for the program itself, call it at their
// start.
func PrepareCopies(s stream.StreamView) error {
	const op = "prepare copies"
	if !s.Valid() {
		return fail(op, "", stream.ErrInvalid, "")
	}
	t := transfer{d: s.Driver(), ctx: s.Context(), s: s.Handle(), view: s}
	table, err := kernelsOf(t.d)
	if err != nil {
		return fail(op, "", err, "")
	}
	for _, name := range kernels.Names() {
		k, err := table.kernel(name)
		if err != nil {
			return fail(op, "", err, "")
		}
		f, res := t.d.KernelGetFunction(t.ctx, k)
		if res == driver.Success && t.d.Has("cuFuncLoad") {
			res = t.d.FuncLoad(f)
		}
		if res != driver.Success && res != driver.ErrorNotSupported {
			return fail(op, "", t.err("load "+name, res), "")
		}
	}
	var got []*stager
	for _, n := range []int64{smallSlot, smallSlot, largeSlot} {
		g, e := stagers.get(&t, n)
		if e != nil {
			err = e
			break
		}
		got = append(got, g)
	}
	for _, g := range got {
		err = joinErrors(err, stagers.put(g))
	}
	if err != nil {
		return fail(op, "", err, "")
	}
	return nil
}
