package rules

// Untestable returns why nobody can decide a rule from outside, or "" if it can
// be decided.
func Untestable(id string) string { return untestable[id] }

var untestable = map[string]string{
	"R018": "a permission: whether a consumer uses its exclusive memory is its own affair, and not using it is fine",
	"R032": "needs a packed view that starts inside a byte; no library of any known kind can make one, as its own arrays have byte addresses",
	"R068": "whether queued work is finished before the deleter runs shows only in a race on a real device; no source rule",
	"R099": "binds the caller's SetError, a function that never leaves the consumer",
	"R103": "where a consumer queues its own kernels cannot be seen from the producer's side",
	"R105": "the specification leaves the owner after a failed to_py open; both ways are allowed",
	"R110": "a thread state that is missing shows only in a debug build of Python; with the GIL held nothing differs",
	"R139": "a permission not to synchronise: doing more than needed is not seen and not wrong",
	"R141": "a recommendation about the integer passed for the default stream of a GPU: see R142, which is checked",
	"R232": "a thread state that is missing shows only in a debug build of Python; with the GIL held nothing differs",
	"R276": "how a consumer finds the device of a stream is its own affair; the protocol has no field for it",
	"R278": "would need to follow an integer through the threads of the consumer",
	"R292": "a preference between protocols that are all allowed",
}
