package launch

import (
	"runtime"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// funcAttributeNumRegs is CU_FUNC_ATTRIBUTE_NUM_REGS.
const funcAttributeNumRegs = 4

// Attributes are what the driver knows about a kernel on one device. Sizes are
// in bytes.
type Attributes struct {
	// MaxThreadsPerBlock is the largest block that can be launched.
	MaxThreadsPerBlock int
	// SharedSize is the static shared memory of a block.
	SharedSize int
	// ConstSize is the constant memory that the user declared.
	ConstSize int
	// LocalSize is the local memory of a thread.
	LocalSize int
	// Registers is the number of registers of a thread.
	Registers int
	// PTXVersion and BinaryVersion are 10 × major + minor of the architectures
	// that the code was compiled for.
	PTXVersion, BinaryVersion int
	// CacheModeCA says that global loads are cached in the first level.
	CacheModeCA bool
	// MaxDynamicSharedSize is the limit of dynamic shared memory of a block;
	// see [Kernel.SetMaxDynamicSharedSize].
	MaxDynamicSharedSize int
	// SharedCarveout is the preferred share of shared memory in the first
	// level cache, in percent, or -1.
	SharedCarveout int
	// ClusterRequired says that the kernel must be launched in clusters.
	ClusterRequired bool
	// RequiredCluster is the cluster that the kernel was compiled for, or 0s.
	RequiredCluster [3]int
	// NonPortableCluster says that clusters may be larger than is portable.
	NonPortableCluster bool
	// ClusterPolicy is the preferred driver.ClusterSchedulingPolicy....
	ClusterPolicy int
}

// Attribute returns one attribute (driver.FuncAttribute...) on a device. A
// wrapped function knows its own device and leaves dev out of account.
func (k *Kernel) Attribute(dev *device.Device, attr int32) (int, error) {
	const op = "attribute"
	if err := k.enter(op); err != nil {
		return 0, err
	}
	defer k.exit()
	v, res := k.attribute(dev, attr)
	return int(v), k.check(op, dev, res)
}

func (k *Kernel) attribute(dev *device.Device, attr int32) (int32, driver.Result) {
	if k.info.handle == 0 {
		return k.info.lib.d.FuncGetAttribute(attr, k.info.fn)
	}
	if dev == nil {
		return 0, driver.ErrorInvalidDevice
	}
	var v int32
	res := k.info.within(dev, func() (res driver.Result) {
		v, res = k.info.lib.d.KernelGetAttribute(attr, k.info.handle, dev.Handle())
		return res
	})
	return v, res
}

// setAttribute is the change of an attribute of a kernel, not of a function.
func (k *Kernel) setAttribute(dev *device.Device, attr, value int32) driver.Result {
	return k.info.within(dev, func() driver.Result {
		return k.info.lib.d.KernelSetAttribute(attr, value, k.info.handle, dev.Handle())
	})
}

// check words a failed call on a device, which may be nil.
func (k *Kernel) check(op string, dev *device.Device, res driver.Result) error {
	if res == driver.Success {
		return nil
	}
	ord := -1
	if dev != nil {
		ord = dev.Ordinal()
	}
	return check(op+" of "+k.String(), ord, res)
}

// SetAttribute changes one attribute (driver.FuncAttribute...) on a device,
// for everyone who launches the kernel there.
func (k *Kernel) SetAttribute(dev *device.Device, attr int32, value int) error {
	const op = "set attribute"
	if int(int32(value)) != value {
		return invalid("%s of %v: %d is out of range", op, k, value)
	}
	if err := k.enter(op); err != nil {
		return err
	}
	defer k.exit()
	if k.info.handle == 0 {
		return k.check(op, dev, k.info.lib.d.FuncSetAttribute(k.info.fn, attr, int32(value)))
	}
	if dev == nil {
		return k.check(op, nil, driver.ErrorInvalidDevice)
	}
	return k.check(op, dev, k.setAttribute(dev, attr, int32(value)))
}

// SetMaxDynamicSharedSize lets launches on a device use up to that many bytes
// of dynamic shared memory in a block. More than 48 KiB needs this.
func (k *Kernel) SetMaxDynamicSharedSize(dev *device.Device, bytes int) error {
	return k.SetAttribute(dev, driver.FuncAttributeMaxDynamicSharedSizeBytes, bytes)
}

// Attributes returns everything at once. An attribute that the driver does not
// know is 0.
func (k *Kernel) Attributes(dev *device.Device) (Attributes, error) {
	const op = "attributes"
	var a Attributes
	if err := k.enter(op); err != nil {
		return a, err
	}
	defer k.exit()
	for _, f := range []struct {
		attr int32
		int  *int
		bool *bool
	}{
		{attr: driver.FuncAttributeMaxThreadsPerBlock, int: &a.MaxThreadsPerBlock},
		{attr: driver.FuncAttributeSharedSizeBytes, int: &a.SharedSize},
		{attr: driver.FuncAttributeConstSizeBytes, int: &a.ConstSize},
		{attr: driver.FuncAttributeLocalSizeBytes, int: &a.LocalSize},
		{attr: funcAttributeNumRegs, int: &a.Registers},
		{attr: driver.FuncAttributePTXVersion, int: &a.PTXVersion},
		{attr: driver.FuncAttributeBinaryVersion, int: &a.BinaryVersion},
		{attr: driver.FuncAttributeCacheModeCA, bool: &a.CacheModeCA},
		{attr: driver.FuncAttributeMaxDynamicSharedSizeBytes, int: &a.MaxDynamicSharedSize},
		{attr: driver.FuncAttributePreferredSharedMemoryCarveout, int: &a.SharedCarveout},
		{attr: driver.FuncAttributeClusterSizeMustBeSet, bool: &a.ClusterRequired},
		{attr: driver.FuncAttributeRequiredClusterWidth, int: &a.RequiredCluster[0]},
		{attr: driver.FuncAttributeRequiredClusterHeight, int: &a.RequiredCluster[1]},
		{attr: driver.FuncAttributeRequiredClusterDepth, int: &a.RequiredCluster[2]},
		{attr: driver.FuncAttributeNonPortableClusterSizeAllowed, bool: &a.NonPortableCluster},
		{attr: driver.FuncAttributeClusterSchedulingPolicyPreference, int: &a.ClusterPolicy},
	} {
		v, res := k.attribute(dev, f.attr)
		if res == driver.ErrorInvalidValue && f.attr >= driver.FuncAttributeClusterSizeMustBeSet {
			continue // before CUDA 11.8, or before clusters
		}
		if err := k.check(op, dev, res); err != nil {
			return a, err
		}
		if f.int != nil {
			*f.int = int(v)
		} else {
			*f.bool = v != 0
		}
	}
	return a, nil
}

// Occupancy answers how many blocks of a kernel fit a device.
type Occupancy struct {
	k   *Kernel
	ctx *device.Context
}

// Occupancy returns the queries for the device of a context.
func (k *Kernel) Occupancy(ctx *device.Context) Occupancy { return Occupancy{k, ctx} }

// ask makes one query.
func (o Occupancy) ask(op string, f func(*driver.Driver, driver.ContextHandle, driver.FunctionHandle) driver.Result) error {
	if o.ctx.Device() == nil {
		return invalid("%s of %v: no context", op, o.k)
	}
	fn, err := o.k.Function(o.ctx)
	if err != nil {
		return err
	}
	if err := o.k.enter(op); err != nil {
		return err
	}
	defer o.k.exit()
	return o.k.check(op, o.ctx.Device(), f(o.k.info.lib.d, o.ctx.Handle(), fn))
}

// limit32 bounds a count for the driver's 32 bits.
func limit32(op string, k *Kernel, values ...int) error {
	for _, v := range values {
		if v < 0 || int(int32(v)) != v {
			return invalid("%s of %v: %d is out of range", op, k, v)
		}
	}
	return nil
}

// MaxActiveBlocks returns how many blocks of that many threads, each with
// shared bytes of dynamic shared memory, run on one multiprocessor at once.
func (o Occupancy) MaxActiveBlocks(threads, shared int) (blocks int, err error) {
	const op = "maximum of active blocks"
	if err := limit32(op, o.k, threads, shared); err != nil {
		return 0, err
	}
	err = o.ask(op, func(d *driver.Driver, ctx driver.ContextHandle, fn driver.FunctionHandle) driver.Result {
		n, res := d.OccupancyMaxActiveBlocksPerMultiprocessor(ctx, fn, int32(threads), uintptr(shared))
		blocks = int(n)
		return res
	})
	return blocks, err
}

// MaxPotentialBlockSize suggests a block size of at most limit threads (0: any)
// that keeps the device busiest, and the smallest grid that fills it.
func (o Occupancy) MaxPotentialBlockSize(shared, limit int) (minGrid, block int, err error) {
	const op = "best block size"
	if err := limit32(op, o.k, shared, limit); err != nil {
		return 0, 0, err
	}
	err = o.ask(op, func(d *driver.Driver, ctx driver.ContextHandle, fn driver.FunctionHandle) driver.Result {
		g, b, res := d.OccupancyMaxPotentialBlockSize(ctx, fn, uintptr(shared), int32(limit))
		minGrid, block = int(g), int(b)
		return res
	})
	return minGrid, block, err
}

// AvailableDynamicShared returns how many bytes of dynamic shared memory each of
// that many blocks of that many threads can have on one multiprocessor.
func (o Occupancy) AvailableDynamicShared(blocks, threads int) (bytes int, err error) {
	const op = "available shared memory"
	if err := limit32(op, o.k, blocks, threads); err != nil {
		return 0, err
	}
	err = o.ask(op, func(d *driver.Driver, ctx driver.ContextHandle, fn driver.FunctionHandle) driver.Result {
		n, res := d.OccupancyAvailableDynamicSMemPerBlock(ctx, fn, int32(blocks), int32(threads))
		bytes = int(n)
		return res
	})
	return bytes, err
}

// MaxPotentialClusterSize returns the largest cluster, in blocks, that a launch
// of this shape can have; what the shape says of clusters is left out of account.
func (o Occupancy) MaxPotentialClusterSize(cfg Config) (blocks int, err error) {
	cfg.Cluster, cfg.PreferredCluster = Dim3{}, Dim3{}
	err = o.askShape("largest cluster", &cfg, func(d *driver.Driver, ctx driver.ContextHandle, fn driver.FunctionHandle, c *driver.LaunchConfig) driver.Result {
		n, res := d.OccupancyMaxPotentialClusterSize(ctx, fn, c)
		blocks = int(n)
		return res
	})
	return blocks, err
}

// MaxActiveClusters returns how many clusters of a launch of this shape run on
// the device at once.
func (o Occupancy) MaxActiveClusters(cfg Config) (clusters int, err error) {
	err = o.askShape("maximum of active clusters", &cfg, func(d *driver.Driver, ctx driver.ContextHandle, fn driver.FunctionHandle, c *driver.LaunchConfig) driver.Result {
		n, res := d.OccupancyMaxActiveClusters(ctx, fn, c)
		clusters = int(n)
		return res
	})
	return clusters, err
}

// askShape makes one query about a launch, which is checked like one.
func (o Occupancy) askShape(op string, cfg *Config, f func(*driver.Driver, driver.ContextHandle, driver.FunctionHandle, *driver.LaunchConfig) driver.Result) error {
	if o.ctx.Device() == nil {
		return invalid("%s of %v: no context", op, o.k)
	}
	if err := o.k.enter(op); err != nil {
		return err
	}
	var shape driver.LaunchConfig
	skip, err := cfg.ready(o.k, o.ctx.Device(), &shape)
	o.k.exit()
	if err != nil {
		return err
	}
	if skip {
		return invalid("%s of %v: the grid is empty", op, o.k)
	}
	list, m := attributeList()
	if m == nil {
		return &Error{Op: op, Device: o.ctx.Device().Ordinal(), Code: driver.ErrorOutOfMemory}
	}
	shape.Attrs, shape.NumAttrs = m.addr, uint32(cfg.attributes(list))
	err = o.ask(op, func(d *driver.Driver, ctx driver.ContextHandle, fn driver.FunctionHandle) driver.Result {
		return f(d, ctx, fn, &shape)
	})
	runtime.KeepAlive(m)
	return err
}
