package stream

// Order says how an exchange is ordered: [On] a stream or [NoSync]. Its zero
// value says nothing and is refused, because a wrong guess would be a race.
type Order struct {
	stream StreamView
	mode   orderMode
}

type orderMode uint8

const (
	orderUnsaid orderMode = iota
	orderNone
	orderOn
)

// On orders an exchange with a stream: what is taken may be used by work that
// is queued on v afterwards.
func On(v StreamView) Order { return Order{stream: v, mode: orderOn} }

// NoSync leaves the ordering to the caller: no edge is made.
func NoSync() Order { return Order{mode: orderNone} }

// Check returns an error that wraps [ErrNoOrder] for the zero Order, and one
// that wraps [ErrInvalid] for [On] an empty view.
func (o Order) Check() error {
	switch {
	case o.mode == orderUnsaid:
		return ErrNoOrder
	case o.mode == orderOn && !o.stream.Valid():
		return ErrInvalid
	}
	return nil
}

// Stream returns the stream of [On]; ok is false for [NoSync] and the zero
// Order.
func (o Order) Stream() (v StreamView, ok bool) { return o.stream, o.mode == orderOn }

// String returns "on" with the stream, "no sync" or "no order".
func (o Order) String() string {
	switch o.mode {
	case orderOn:
		return "on " + o.stream.String()
	case orderNone:
		return "no sync"
	}
	return "no order"
}
