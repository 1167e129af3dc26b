// Package edges holds the mutation test of the library's synchronization: every edge that
// the library makes between streams, or between a stream and the host, is left out once, and the hunt
// for missing synchronization of the software device has to notice. docs/edges.md is its result.
package edges
