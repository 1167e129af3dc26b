package memview

import (
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/stream"
)

// handOver tells the checking layer of the driver, where there is one, that the producer's stream
// has made the memory and that others use it now. It comes before the edge.
func (v *StridedMemoryView) handOver(from *stream.StreamView) {
	d := from.Driver()
	if d == nil || !d.Checked() || v.layout.empty() {
		return
	}
	lo, hi := v.bytesAt()
	d.HandOver(from.Context(), from.Handle(), driver.DevicePtr(lo), uintptr(hi-lo))
}

// gaveBack tells the checking layer that the producer has the memory again.
func (v *StridedMemoryView) gaveBack() {
	d := v.place.from.Driver()
	if d == nil || !d.Checked() || v.layout.empty() {
		return
	}
	lo, _ := v.bytesAt()
	d.GiveBack(driver.DevicePtr(lo))
}
