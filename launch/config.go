package launch

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// Dim3 is an extent in three directions. Y and Z of 0 mean 1. X of 0 is empty:
// a launch with an empty grid does nothing and succeeds. For extents that are
// computed use [D2] and [D3], where any 0 is empty.
type Dim3 struct{ X, Y, Z int }

// D1 returns the extent (x, 1, 1).
func D1(x int) Dim3 { return Dim3{x, 1, 1} }

// D2 returns the extent (x, y, 1), which is empty if either is 0.
func D2(x, y int) Dim3 { return D3(x, y, 1) }

// D3 returns the extent (x, y, z), which is empty if any is 0.
func D3(x, y, z int) Dim3 {
	if x == 0 || y == 0 || z == 0 {
		return Dim3{0, 1, 1}
	}
	return Dim3{x, y, z}
}

// Cover returns the grid of blocks of that many threads that has a thread for
// each of n elements; it is empty for none.
func Cover(n int64, threads int) Dim3 {
	if n <= 0 || threads <= 0 {
		return Dim3{0, 1, 1}
	}
	return Dim3{int((n-1)/int64(threads) + 1), 1, 1}
}

// String returns "(2, 3, 1)".
func (d Dim3) String() string {
	d = d.full()
	return "(" + strconv.Itoa(d.X) + ", " + strconv.Itoa(d.Y) + ", " + strconv.Itoa(d.Z) + ")"
}

// full replaces zeros in Y and Z.
func (d Dim3) full() Dim3 {
	if d.Y == 0 {
		d.Y = 1
	}
	if d.Z == 0 {
		d.Z = 1
	}
	return d
}

func (d Dim3) isZero() bool { return d == Dim3{} }

// volume is the product of an extent that was checked.
func (d Dim3) volume() int { return d.X * d.Y * d.Z }

// Config is the shape of a launch and everything else about it. It is a value:
// set what is needed, in any order, and use it for any number of launches.
type Config struct {
	// Grid is the number of blocks, with clusters too. If it is empty nothing
	// is launched.
	Grid Dim3
	// Block is the number of threads of a block.
	Block Dim3
	// Cluster is the number of blocks of a cluster, which must divide the
	// grid. The zero value means no clusters, or those that the kernel was
	// compiled for. Needs compute capability 9.0.
	Cluster Dim3
	// PreferredCluster is used in place of Cluster, of which it is a multiple,
	// where the device has room. Needs CUDA 12.8 and compute capability 10.0.
	PreferredCluster Dim3
	// SharedMem is the dynamic shared memory of a block in bytes.
	SharedMem int
	// OptInShared raises the kernel's limit of dynamic shared memory where
	// SharedMem needs it, as [Kernel.SetMaxDynamicSharedSize] does.
	OptInShared bool
	// Cooperative makes it an error if not all blocks run at once, so that
	// they may wait for each other.
	Cooperative bool
	// ProgrammaticStreamSerialization lets the kernel begin before the one
	// before it has ended; it waits by itself where it has to. Needs compute
	// capability 9.0.
	ProgrammaticStreamSerialization bool
	// Priority overrides the stream's, if it is not 0. The lower the more
	// urgent.
	Priority int
	// ClusterPolicy is a driver.ClusterSchedulingPolicy..., 0 for the default.
	ClusterPolicy int32
	// MemSyncDomain is the domain of memory fences, 0 or 1.
	MemSyncDomain int32
	// AllowPeer accepts memory of another device that the stream's device can
	// reach. The caller has enabled the access ([device.Device.EnableAccess]).
	AllowPeer bool
}

// ErrConfig means that a [Config] cannot be launched. The error is a
// [*ConfigError].
var ErrConfig = errors.New("bad launch configuration")

// ConfigError says which field of a [Config] is wrong, and what would be right.
// It matches [ErrConfig], or [ErrNotSupported] as well where the device lacks a
// feature.
type ConfigError struct {
	// Kernel is the name of the kernel.
	Kernel string
	// Device is the ordinal of the device, or -1.
	Device int
	// Field is the name of the field.
	Field string
	// Detail says what is wrong with it.
	Detail string
	// Err is a more exact kind of error, or nil.
	Err error
}

// Error returns text of the form "launch: kernel k on device 0: Block (2048, 1, 1):
// 2048 threads, the device can have 1024: bad launch configuration".
func (e *ConfigError) Error() string {
	s := "launch: kernel " + e.Kernel
	if e.Device >= 0 {
		s += " on device " + strconv.Itoa(e.Device)
	}
	s += ": " + e.Field + " " + e.Detail + ": " + ErrConfig.Error()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns [ErrConfig] and the more exact kind.
func (e *ConfigError) Unwrap() []error {
	if e.Err != nil {
		return []error{ErrConfig, e.Err}
	}
	return []error{ErrConfig}
}

// deviceLimits are facts about a device that a launch is checked against.
type deviceLimits struct {
	block, grid                Dim3
	threads                    int
	shared, sharedOptIn        int
	cooperative, clusters, pdl bool
}

// kernelLimits are facts about a kernel on a device, together with the
// device's own, so that the check of a launch looks at one place.
type kernelLimits struct {
	grid, block     Dim3         // of the device
	most            int          // threads of a block: the lesser of kernel and device
	dynamic         atomic.Int64 // as it was last seen; anyone may raise it
	threads, shared int
	dev             *deviceLimits
}

// cachedDevices is how many devices facts are kept for; others are asked each
// time.
const cachedDevices = 16

type limitCache [cachedDevices]atomic.Pointer[kernelLimits]

var devicesSeen [cachedDevices]atomic.Pointer[deviceLimits]

func limitsOf(dev *device.Device) (*deviceLimits, error) {
	ord := dev.Ordinal()
	if ord < cachedDevices {
		if l := devicesSeen[ord].Load(); l != nil {
			return l, nil
		}
	}
	var coop, clusters, major int
	l := new(deviceLimits)
	for _, a := range []struct {
		attr driver.DeviceAttribute
		to   *int
	}{
		{driver.AttrMaxBlockDimX, &l.block.X},
		{driver.AttrMaxBlockDimY, &l.block.Y},
		{driver.AttrMaxBlockDimZ, &l.block.Z},
		{driver.AttrMaxGridDimX, &l.grid.X},
		{driver.AttrMaxGridDimY, &l.grid.Y},
		{driver.AttrMaxGridDimZ, &l.grid.Z},
		{driver.AttrMaxThreadsPerBlock, &l.threads},
		{driver.AttrMaxSharedMemoryPerBlock, &l.shared},
		{driver.AttrMaxSharedMemoryPerBlockOptin, &l.sharedOptIn},
		{driver.AttrCooperativeLaunch, &coop},
		{driver.AttrComputeCapabilityMajor, &major},
	} {
		v, err := dev.Attribute(a.attr)
		if err != nil {
			return nil, fmt.Errorf("launch: limits: %w", err)
		}
		*a.to = v
	}
	if v, err := dev.Attribute(driver.AttrClusterLaunch); err == nil { // CUDA 11.8
		clusters = v
	}
	l.cooperative, l.clusters, l.pdl = coop != 0, clusters != 0, major >= 9
	if ord < cachedDevices {
		devicesSeen[ord].Store(l)
	}
	return l, nil
}

func (k *Kernel) limitsOn(dev *device.Device) (*kernelLimits, error) {
	if ord := dev.Ordinal(); uint(ord) < cachedDevices {
		if l := k.info.limits[ord].Load(); l != nil {
			return l, nil
		}
	}
	return k.findLimits(dev)
}

func (k *Kernel) findLimits(dev *device.Device) (*kernelLimits, error) {
	d, err := limitsOf(dev)
	if err != nil {
		return nil, err
	}
	l := &kernelLimits{dev: d, grid: d.grid, block: d.block}
	var dynamic int
	for _, a := range []struct {
		attr int32
		to   *int
	}{
		{driver.FuncAttributeMaxThreadsPerBlock, &l.threads},
		{driver.FuncAttributeSharedSizeBytes, &l.shared},
		{driver.FuncAttributeMaxDynamicSharedSizeBytes, &dynamic},
	} {
		v, res := k.attribute(dev, a.attr)
		if err := k.check("limits", dev, res); err != nil {
			return nil, err
		}
		*a.to = int(v)
	}
	l.dynamic.Store(int64(dynamic))
	l.most = min(l.threads, d.threads)
	if ord := dev.Ordinal(); uint(ord) < cachedDevices {
		k.info.limits[ord].Store(l)
	}
	return l, nil
}

// fits says that a launch is of the common kind, without attributes, not empty
// and within the limits, and then gives its shape. For any other
// [Config.check] finds out more.
func (c *Config) fits(l *kernelLimits, to *driver.LaunchConfig) bool {
	gx, gy, gz := c.Grid.X, max(c.Grid.Y, 1), max(c.Grid.Z, 1)
	bx, by, bz := c.Block.X, max(c.Block.Y, 1), max(c.Block.Z, 1)
	// One branch for all questions: what is negative has its highest bit set. A
	// product that overflows is one of extents that are too large themselves.
	wrong := gx | bx | c.Grid.Y | c.Grid.Z | c.Block.Y | c.Block.Z | c.SharedMem | (gx - 1) | (bx - 1) |
		(l.grid.X - gx) | (l.grid.Y - gy) | (l.grid.Z - gz) | (l.block.X - bx) | (l.block.Y - by) | (l.block.Z - bz) |
		(l.most - bx*by*bz) | (int(l.dynamic.Load()) - c.SharedMem)
	if wrong < 0 || !c.plain() {
		return false
	}
	to.GridX, to.GridY, to.GridZ = uint32(gx), uint32(gy), uint32(gz)
	to.BlockX, to.BlockY, to.BlockZ = uint32(bx), uint32(by), uint32(bz)
	to.SharedBytes, to.NumAttrs = uint32(c.SharedMem), 0
	return true
}

// ready checks a launch. The kernel is in use. skip means that the grid is
// empty.
func (c *Config) ready(k *Kernel, dev *device.Device, to *driver.LaunchConfig) (skip bool, err error) {
	l, err := k.limitsOn(dev)
	if err != nil {
		return false, err
	}
	if c.fits(l, to) {
		return false, nil
	}
	return c.check(k, dev, l, to)
}

// check refuses what the device cannot launch, and raises the limit of shared
// memory if the configuration says so. The kernel is in use. skip means that
// the grid is empty.
func (c *Config) check(k *Kernel, dev *device.Device, kl *kernelLimits, to *driver.LaunchConfig) (skip bool, err error) {
	bad := func(field, format string, args ...any) error {
		return &ConfigError{Kernel: k.info.name, Device: dev.Ordinal(), Field: field, Detail: fmt.Sprintf(format, args...)}
	}
	grid, block := c.Grid.full(), c.Block.full()
	if grid.X < 0 || grid.Y < 0 || grid.Z < 0 {
		return false, bad("Grid", "%v: negative", grid)
	}
	if block.X <= 0 || block.Y < 0 || block.Z < 0 {
		return false, bad("Block", "%v: a block has at least one thread", block)
	}
	l := kl.dev
	if grid.X > l.grid.X || grid.Y > l.grid.Y || grid.Z > l.grid.Z {
		return false, bad("Grid", "%v: the device can have %v", grid, l.grid)
	}
	if block.X > l.block.X || block.Y > l.block.Y || block.Z > l.block.Z {
		return false, bad("Block", "%v: the device can have %v", block, l.block)
	}
	if n := block.volume(); n > l.threads {
		return false, bad("Block", "%v: %d threads, the device can have %d", block, n, l.threads)
	} else if n > kl.threads {
		return false, bad("Block", "%v: %d threads, the kernel can have %d: it uses many registers, or was compiled with launch bounds", block, n, kl.threads)
	}
	if c.SharedMem != 0 {
		if err := c.checkShared(k, dev, l, kl, bad); err != nil {
			return false, err
		}
	}
	to.GridX, to.GridY, to.GridZ = uint32(grid.X), uint32(grid.Y), uint32(grid.Z)
	to.BlockX, to.BlockY, to.BlockZ = uint32(block.X), uint32(block.Y), uint32(block.Z)
	to.SharedBytes, to.NumAttrs = uint32(c.SharedMem), 0
	if c.plain() {
		return grid.X == 0, nil
	}
	if !c.Cluster.isZero() {
		cl := c.Cluster.full()
		if cl.X <= 0 || cl.Y < 0 || cl.Z < 0 {
			return false, bad("Cluster", "%v: a cluster has at least one block", cl)
		}
		if !l.clusters {
			return false, c.lacks(k, dev, "Cluster", "clusters need compute capability 9.0")
		}
		if cl.X > grid.X && grid.X > 0 || cl.Y > grid.Y || cl.Z > grid.Z || grid.X%cl.X != 0 || grid.Y%cl.Y != 0 || grid.Z%cl.Z != 0 {
			return false, bad("Cluster", "%v does not divide the grid %v, which counts blocks", cl, grid)
		}
	}
	if !c.PreferredCluster.isZero() {
		p, cl := c.PreferredCluster.full(), c.Cluster.full()
		if c.Cluster.isZero() || p.X <= 0 || p.Y < 0 || p.Z < 0 || p.X%cl.X != 0 || p.Y%cl.Y != 0 || p.Z%cl.Z != 0 {
			return false, bad("PreferredCluster", "%v is no multiple of Cluster %v", p, c.Cluster)
		}
	}
	if c.Cooperative && !l.cooperative {
		return false, c.lacks(k, dev, "Cooperative", "the device cannot launch so")
	}
	if c.ProgrammaticStreamSerialization && !l.pdl {
		return false, c.lacks(k, dev, "ProgrammaticStreamSerialization", "needs compute capability 9.0")
	}
	if c.Priority < math.MinInt32 || c.Priority > math.MaxInt32 {
		return false, bad("Priority", "%d is out of range", c.Priority)
	}
	if c.MemSyncDomain < 0 || c.MemSyncDomain > 1 {
		return false, bad("MemSyncDomain", "%d is not 0 or 1", c.MemSyncDomain)
	}
	return grid.X == 0, nil
}

func (c *Config) lacks(k *Kernel, dev *device.Device, field, detail string) error {
	return &ConfigError{Kernel: k.info.name, Device: dev.Ordinal(), Field: field, Detail: detail, Err: ErrNotSupported}
}

func (c *Config) checkShared(k *Kernel, dev *device.Device, l *deviceLimits, kl *kernelLimits, bad func(string, string, ...any) error) error {
	n := c.SharedMem
	if n < 0 {
		return bad("SharedMem", "%d bytes: negative", n)
	}
	if int64(n) <= kl.dynamic.Load() {
		return nil
	}
	// Somebody may have raised it since.
	now, res := k.attribute(dev, driver.FuncAttributeMaxDynamicSharedSizeBytes)
	if err := k.check("limit of shared memory", dev, res); err != nil {
		return err
	}
	kl.dynamic.Store(int64(now))
	if n <= int(now) {
		return nil
	}
	most := max(l.shared, l.sharedOptIn) - kl.shared
	if n > most {
		return bad("SharedMem", "%d bytes: the device can have %d in a block, of which the kernel uses %d", n, max(l.shared, l.sharedOptIn), kl.shared)
	}
	if !c.OptInShared {
		return bad("SharedMem", "%d bytes: the kernel's limit is %d, the device's is %d: call SetMaxDynamicSharedSize, or set OptInShared", n, now, most)
	}
	var set driver.Result
	if k.info.handle != 0 {
		set = k.setAttribute(dev, driver.FuncAttributeMaxDynamicSharedSizeBytes, int32(n))
	} else {
		set = k.info.lib.d.FuncSetAttribute(k.info.fn, driver.FuncAttributeMaxDynamicSharedSizeBytes, int32(n))
	}
	if err := k.check("raise the limit of shared memory", dev, set); err != nil {
		return err
	}
	kl.dynamic.Store(int64(n))
	return nil
}

// plain says that the launch has no attributes.
func (c *Config) plain() bool {
	dims := c.Cluster.X | c.Cluster.Y | c.Cluster.Z | c.PreferredCluster.X | c.PreferredCluster.Y | c.PreferredCluster.Z
	return dims|c.Priority|int(c.ClusterPolicy|c.MemSyncDomain) == 0 && !c.Cooperative && !c.ProgrammaticStreamSerialization
}

// maxAttributes is how many attributes a Config can have.
const maxAttributes = 7

// attributes fills the list, which is C memory for launches, with the
// attributes of a Config that was checked.
func (c *Config) attributes(list []driver.LaunchAttribute) int {
	n := 0
	set := func(id int32, words ...uint32) {
		a := &list[n]
		*a = driver.LaunchAttribute{ID: id}
		for i, w := range words {
			a.Value[i/2] |= uint64(w) << (32 * (i % 2)) // all targets of CUDA are little-endian
		}
		n++
	}
	if !c.Cluster.isZero() {
		d := c.Cluster.full()
		set(driver.LaunchAttributeClusterDimension, uint32(d.X), uint32(d.Y), uint32(d.Z))
	}
	if !c.PreferredCluster.isZero() {
		d := c.PreferredCluster.full()
		set(driver.LaunchAttributePreferredClusterDimension, uint32(d.X), uint32(d.Y), uint32(d.Z))
	}
	if c.Cooperative {
		set(driver.LaunchAttributeCooperative, 1)
	}
	if c.ProgrammaticStreamSerialization {
		set(driver.LaunchAttributeProgrammaticStreamSerialization, 1)
	}
	if c.Priority != 0 {
		set(driver.LaunchAttributePriority, uint32(int32(c.Priority)))
	}
	if c.ClusterPolicy != 0 {
		set(driver.LaunchAttributeClusterSchedulingPolicyPreference, uint32(c.ClusterPolicy))
	}
	if c.MemSyncDomain != 0 {
		set(driver.LaunchAttributeMemSyncDomain, uint32(c.MemSyncDomain))
	}
	return n
}
