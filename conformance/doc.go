// Package conformance tests whether a library keeps the protocols by which
// arrays and streams are exchanged, rule by rule. Package rules has the rules.
//
//	report, err := conformance.Run(ctx, []string{"numpy", "mylib:factory"}, conformance.Options{Python: "python3"})
//
// [Run] tests Python libraries, each check in a child process, so that a crash
// is a result. The command `handoff conform` shows what it returns.
//
// # Errors
//
// What a target does is never an error: it is in the [Report]. An error means
// that the checks could not be run ([ErrCannotRun]).
package conformance
