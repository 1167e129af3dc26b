// Package dlpacktest is the foreign side of the tests of package dlpack: a
// producer, a consumer and exchange tables in C, as another library would have
// them. Only tests and benchmarks import it.
//
// It needs the C functions of package dlpack at link time, so a program that
// imports it must import that package too.
package dlpacktest
