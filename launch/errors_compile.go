package launch

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// CompileError says why a compiler or linker refused its input. It matches
// [ErrCompile] or [ErrLink].
type CompileError struct {
	// Op is what was being done, for example "compile saxpy.cu to cubin".
	Op string
	// Name is the program's.
	Name string
	// Lib is who refused: "nvrtc", "nvvm", "nvJitLink" or "cuda".
	Lib string
	// Code and CodeName are the library's code.
	Code     int
	CodeName string
	// Log is everything that the library said.
	Log string
	// Source is the text that was compiled, or "". It is what line numbers in
	// the log are about.
	Source string
	// Err is the library's own error.
	Err error
	// link says that it was a linker.
	link bool
}

// Error returns the log, and the source line that its first error is about.
func (e *CompileError) Error() string {
	var b strings.Builder
	kind := ErrCompile
	if e.link {
		kind = ErrLink
	}
	fmt.Fprintf(&b, "launch: %s: %v: %s (%s)", e.Op, kind, e.Lib, e.CodeName)
	if line, text, ok := e.Line(); ok {
		fmt.Fprintf(&b, "\n%5d | %s", line, text)
	}
	if log := strings.TrimSpace(e.Log); log != "" {
		b.WriteString("\n" + log)
	} else if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns [ErrCompile] or [ErrLink], and the library's error.
func (e *CompileError) Unwrap() []error {
	kind := ErrCompile
	if e.link {
		kind = ErrLink
	}
	if e.Err == nil {
		return []error{kind}
	}
	return []error{kind, e.Err}
}

// position finds "name(12): error" of NVRTC and "ptxas name, line 12; error"
// of the assemblers.
var position = regexp.MustCompile(`(?m)^(?:(.*)\((\d+)\): (?:catastrophic |internal )?error|.*?(\S*), line (\d+); (?:error|fatal))`)

// Line returns the line of the source that the first error in the log is
// about, if it is one of the program itself and not of a header.
func (e *CompileError) Line() (line int, text string, ok bool) {
	for _, m := range position.FindAllStringSubmatch(e.Log, -1) {
		file, number := m[1], m[2]
		if number == "" {
			file, number = e.Name, m[4]
		}
		line, err := strconv.Atoi(number)
		if err != nil || file != e.Name {
			continue
		}
		lines := strings.Split(e.Source, "\n")
		if line < 1 || line > len(lines) {
			continue
		}
		return line, strings.TrimRight(lines[line-1], "\r\x00"), true
	}
	return 0, "", false
}
