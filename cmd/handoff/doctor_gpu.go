package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/launch/nvjitlink"
	"github.com/go-handoff/handoff/launch/nvrtc"
	"github.com/go-handoff/handoff/launch/nvvm"
	"github.com/go-handoff/handoff/pathfinder"
)

// driverReport is the driver that HANDOFF_DRIVER chooses.
type driverReport struct {
	OK       bool   `json:"ok"`
	Provider string `json:"provider,omitempty"` // "cuda" or "soft"
	Path     string `json:"path,omitempty"`     // empty for the software device
	CUDA     string `json:"cuda,omitempty"`     // the newest CUDA that the driver knows
	Error    string `json:"error,omitempty"`
}

// deviceReport is one device of the driver.
type deviceReport struct {
	Ordinal int    `json:"ordinal"`
	Name    string `json:"name"`
	Arch    string `json:"arch"`
	Memory  uint64 `json:"memory"` // bytes
	UUID    string `json:"uuid"`
	PCI     string `json:"pci"`
	Peers   []int  `json:"peers"` // whose memory it reaches
	Error   string `json:"error,omitempty"`
}

// fileReport is a part of the CUDA toolkit.
type fileReport struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"` // "library", "headers", "binary", "bitcode" or "static library"
	OK      bool     `json:"ok"`
	Path    string   `json:"path,omitempty"`
	Via     string   `json:"via,omitempty"` // how it was found
	CTK     int      `json:"ctk,omitempty"`
	Version string   `json:"version,omitempty"`
	Error   string   `json:"error,omitempty"`
	Places  []string `json:"places,omitempty"` // where it was looked for in vain
}

// need says whether one purpose can be served, and what to do if not.
type need struct {
	For     string   `json:"for"`
	OK      bool     `json:"ok"`
	Missing []string `json:"missing,omitempty"`
	Hint    string   `json:"hint,omitempty"`
}

// opened are the libraries that are not only looked for: whether they open is
// part of the answer, and the system's loader knows some of them alone.
var opened = []string{"nvml", "cudart", "nvrtc", "nvJitLink", "nvvm", "cufile", "cupti", "nccl"}

// looked are the files that purposes need. What else is there is shown, and not
// missed.
var looked = map[string][]string{
	"headers": {"cudart", "cccl"},
	"bitcode": {"device"},
}

// gpu looks at the driver, its devices and the toolkit. The packages of python
// are searched, if it is not empty.
func (d *diagnosis) gpu(python string) {
	d.Driver, d.Devices = driverAndDevices(driver.Default)
	f, err := pathfinder.New(&pathfinder.Options{Python: python})
	if err != nil {
		d.Warnings = append(d.Warnings, err.Error())
		f = pathfinder.Default()
	}
	d.Toolkit = toolkit(f)
	d.Warnings = append(d.Warnings, f.Warnings()...)
	d.Needs = d.needs()
}

func driverAndDevices(open func() (*driver.Driver, error)) (r driverReport, devices []deviceReport) {
	devices = []deviceReport{}
	d, err := open()
	if err != nil {
		return driverReport{Error: err.Error()}, devices
	}
	v := d.Version()
	r = driverReport{OK: true, Provider: string(d.Provider()), Path: d.Path(), CUDA: fmt.Sprintf("%d.%d", v/1000, v%1000/10)}
	var all []*device.Device
	for dev, err := range device.Devices() {
		if err != nil {
			r.OK, r.Error = false, err.Error()
			break
		}
		all = append(all, dev)
	}
	for _, dev := range all {
		devices = append(devices, describe(dev, all))
	}
	return r, devices
}

// describe asks a device for everything. Nothing here makes a context.
func describe(dev *device.Device, all []*device.Device) deviceReport {
	r := deviceReport{Ordinal: dev.Ordinal(), Peers: []int{}}
	var id device.UUID
	var errs [5]error
	r.Name, errs[0] = dev.Name()
	r.Arch, errs[1] = dev.Arch()
	r.Memory, errs[2] = dev.TotalMemory()
	id, errs[3] = dev.UUID()
	r.PCI, errs[4] = dev.PCIBusID()
	r.UUID = id.String()
	err := errors.Join(errs[:]...)
	for _, other := range all {
		if other == dev {
			continue
		}
		can, e := dev.CanAccess(other)
		if can {
			r.Peers = append(r.Peers, other.Ordinal())
		}
		err = errors.Join(err, e)
	}
	if err != nil {
		r.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return r
}

// toolkit looks for everything that package pathfinder knows: what is found is
// reported, and what is not found if a purpose needs it.
func toolkit(f *pathfinder.Finder) []fileReport {
	files := []fileReport{}
	add := func(kind, name string, needed bool, l pathfinder.Location, err error) {
		r := fileReport{Name: name, Kind: kind, OK: err == nil, Path: l.Path, CTK: l.CTK}
		if err == nil {
			r.Via = l.Via.String()
		} else {
			if !needed {
				return
			}
			r.Error, _, _ = strings.Cut(err.Error(), "\n")
			var missing *pathfinder.NotFoundError
			if errors.As(err, &missing) {
				for _, p := range missing.Places {
					r.Places = append(r.Places, p.String())
				}
			}
		}
		files = append(files, r)
	}
	for _, name := range opened {
		lib, err := f.Load(name)
		add("library", name, true, lib.Location, err)
		if err == nil {
			files[len(files)-1].Version = version(lib)
		}
	}
	for _, info := range pathfinder.Libraries() {
		if !slices.Contains(opened, info.Name) && !info.Driver {
			l, err := f.Locate(info.Name)
			add("library", info.Name, false, l, err)
		}
	}
	for _, k := range []struct {
		kind  string
		names []string
		find  func(string) (pathfinder.Location, error)
	}{
		{"headers", pathfinder.HeaderNames(), f.Headers},
		{"binary", pathfinder.BinaryNames(), f.Binary},
		{"bitcode", pathfinder.BitcodeNames(), f.Bitcode},
		{"static library", pathfinder.StaticNames(), f.Static},
	} {
		for _, name := range k.names {
			l, err := k.find(name)
			add(k.kind, name, slices.Contains(looked[k.kind], name), l, err)
		}
	}
	return files
}

// version asks the compilers and linkers, which can be asked without a driver.
func version(lib pathfinder.Library) string {
	var major, minor int
	switch lib.Name {
	case "nvrtc":
		if l, err := nvrtc.Open(lib); err == nil {
			major, minor = l.Version()
		}
	case "nvJitLink":
		if l, err := nvjitlink.Open(lib); err == nil {
			major, minor = l.Version()
		}
	case "nvvm":
		if l, err := nvvm.Open(lib); err == nil {
			major, minor = l.Version()
		}
	}
	if major == 0 {
		return ""
	}
	return strconv.Itoa(major) + "." + strconv.Itoa(minor)
}

// needs says what is missing for what.
func (d *diagnosis) needs() []need {
	has := func(kind, name string) bool {
		for _, f := range d.Toolkit {
			if f.Kind == kind && f.Name == name {
				return f.OK
			}
		}
		return false
	}
	check := func(name string) bool {
		for _, c := range d.Checks {
			if c.Name == name {
				return c.OK
			}
		}
		return false
	}
	lib := func(name string) bool { return has("library", name) }
	orToolkit := func(packages string) string {
		return "pip install " + packages + " (names of CUDA 13), or name a toolkit by CUDA_PATH"
	}
	carried := false // the headers that NVRTC has with it
	for _, f := range d.Toolkit {
		var major, minor int
		if f.Name == "nvrtc" && f.Kind == "library" {
			_, _ = fmt.Sscanf(f.Version, "%d.%d", &major, &minor)
			carried = major > 13 || major == 13 && minor >= 3
		}
	}
	cuda := d.Driver.OK && d.Driver.Provider == string(driver.ProviderCUDA)
	gpu := cuda && len(d.Devices) > 0
	type part struct {
		what string
		ok   bool
	}
	list := []need{}
	add := func(purpose, hint string, parts ...part) {
		n := need{For: purpose, OK: true}
		for _, p := range parts {
			if !p.ok {
				n.OK, n.Missing = false, append(n.Missing, p.what)
			}
		}
		if !n.OK {
			n.Hint = hint
		}
		list = append(list, n)
	}
	add("Python modules written in Go", "install what the first table misses",
		part{"go", check("go")}, part{"C compiler", check("C compiler")}, part{"python", check("python")})
	add("streams, memory and kernels on a GPU", "install NVIDIA's driver, or set HANDOFF_DRIVER=soft for the software device",
		part{"CUDA driver", cuda}, part{"a device", gpu})
	add("compiling CUDA C++", orToolkit("nvidia-cuda-nvrtc"), part{"nvrtc", lib("nvrtc")})
	add("CUDA C++ that includes cuda_fp16.h and the like", orToolkit("nvidia-cuda-runtime nvidia-cuda-cccl")+"; NVRTC 13.3 has them with it",
		part{"nvrtc", lib("nvrtc")}, part{"headers of cudart", carried || has("headers", "cudart")}, part{"headers of cccl", carried || has("headers", "cccl")})
	add("linking, link-time optimization, PTX to machine code", orToolkit("nvidia-nvjitlink")+"; else a GPU's driver links, without LTO",
		part{"nvJitLink", lib("nvJitLink")})
	add("compiling NVVM IR", orToolkit("nvidia-nvvm"), part{"nvvm", lib("nvvm")}, part{"libdevice", has("bitcode", "device")})
	add("programs that call NCCL", orToolkit("nvidia-nccl-cu13"), part{"nccl", lib("nccl")})
	add("programs that call cuFile", orToolkit("nvidia-cufile"), part{"cufile", lib("cufile")})
	add("programs that call CUPTI", orToolkit("nvidia-cuda-cupti"), part{"cupti", lib("cupti")})
	return list
}

func newTable(head ...any) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row(head))
	t.SetColumnConfigs([]table.ColumnConfig{{Number: len(head), WidthMax: 120, WidthMaxEnforcer: text.WrapSoft}})
	return t
}

// writeGPU writes the tables of the driver, its devices and the toolkit.
func (d *diagnosis) writeGPU(w io.Writer) error {
	t := newTable("driver", "cuda", "found")
	if d.Driver.OK {
		found := d.Driver.Path
		if found == "" {
			found = "in this program"
		}
		t.AppendRow(table.Row{d.Driver.Provider, d.Driver.CUDA, found})
	} else {
		t.AppendRow(table.Row{"none", "", d.Driver.Error})
	}
	tables := []table.Writer{t}
	if len(d.Devices) > 0 {
		t := newTable("device", "name", "arch", "GiB", "UUID", "reaches")
		for _, dev := range d.Devices {
			peers := make([]string, len(dev.Peers))
			for i, p := range dev.Peers {
				peers[i] = strconv.Itoa(p)
			}
			name := dev.Name
			if dev.Error != "" {
				name += ": " + dev.Error
			}
			t.AppendRow(table.Row{dev.Ordinal, name, dev.Arch, fmt.Sprintf("%.1f", float64(dev.Memory)/(1<<30)), dev.UUID, strings.Join(peers, " ")})
		}
		tables = append(tables, t)
	}
	t = newTable("toolkit", "kind", "version", "found")
	for _, f := range d.Toolkit {
		what := f.Path
		if f.Via != "" {
			what += " (" + f.Via + ")"
		}
		if !f.OK {
			what = "not found"
			switch len(f.Places) {
			case 0:
			case 1:
				what += ": " + f.Places[0]
			default:
				what += fmt.Sprintf(" in %d places: --json lists them", len(f.Places))
			}
		}
		v := f.Version
		if v == "" && f.CTK != 0 {
			v = strconv.Itoa(f.CTK)
		}
		t.AppendRow(table.Row{f.Name, f.Kind, v, what})
	}
	tables = append(tables, t)
	t = newTable("what for", "", "missing")
	for _, n := range d.Needs {
		if n.OK {
			t.AppendRow(table.Row{n.For, "ok", ""})
		} else {
			t.AppendRow(table.Row{n.For, "no", strings.Join(n.Missing, ", ") + ": " + n.Hint})
		}
	}
	tables = append(tables, t)
	for _, t := range tables {
		if _, err := fmt.Fprintln(w, t.Render()); err != nil {
			return err
		}
	}
	for _, warning := range d.Warnings {
		if _, err := fmt.Fprintln(w, "warning:", warning); err != nil {
			return err
		}
	}
	return nil
}
