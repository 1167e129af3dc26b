package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// server is a process of the Python half that forks a child for each request.
// Servers in it have imported libraries, so that their children need not; see
// __main__.py. A server is used by one goroutine.
type server struct {
	r       *runner
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	log     tail
	stderr  string // the file that a child writes to
	entered []string
}

// message is what the server itself says; line is what a child says.
type message struct {
	line
	Pid     int     `json:"pid"`
	Exit    *int    `json:"exit"`
	Of      string  `json:"of"`
	Entered string  `json:"entered"`
	Error   *string `json:"error"`
}

func (r *runner) serve(number int) *server {
	return &server{r: r, stderr: filepath.Join(r.temp, fmt.Sprintf("stderr-%d", number))}
}

// start starts the process, if there is none.
func (s *server) start() error {
	if s.cmd != nil {
		return nil
	}
	s.entered, s.log = nil, tail{}
	cmd := exec.CommandContext(s.r.ctx, s.r.Python, "-m", "handoff_conformance", "serve")
	cmd.Env, cmd.Dir, cmd.Stderr = s.r.env, s.r.Dir, &s.log
	cmd.WaitDelay = time.Second
	inGroup(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.in, s.out = cmd, in, bufio.NewReaderSize(out, 1<<16)
	return nil
}

// stop ends the process and its children.
func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	s.in.Close() // servers end when there are no more requests
	late := time.AfterFunc(time.Second, func() { _ = s.cmd.Cancel() })
	_ = s.cmd.Wait()
	late.Stop()
	s.cmd, s.entered = nil, nil
}

// request sends one line.
func (s *server) request(v map[string]any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = s.in.Write(append(data, '\n'))
	return err
}

// inside makes the server one that has imported the libraries of the targets,
// as far as that may happen before a fork.
func (s *server) inside(targets ...string) {
	want := make([]string, 0, len(targets))
	for _, t := range targets {
		if s.r.preload[t] && !slices.Contains(want, t) {
			want = append(want, t)
		}
	}
	keep := 0
	for keep < len(want) && keep < len(s.entered) && want[keep] == s.entered[keep] {
		keep++
	}
	for len(s.entered) > keep {
		if s.request(map[string]any{"leave": true}) != nil || !s.until(func(m *message) bool { return m.Exit != nil }) {
			s.stop()
			break
		}
		s.entered = s.entered[:len(s.entered)-1]
	}
	if s.start() != nil {
		return
	}
	for _, t := range want[len(s.entered):] {
		ok := s.request(map[string]any{"enter": t}) == nil
		failed := false
		if !ok || !s.until(func(m *message) bool { failed = m.Exit != nil; return m.Entered != "" || failed }) || failed {
			// The import ends the process, alone or after the others: the child,
			// which imports for itself, says so.
			if len(s.entered) == 0 {
				s.r.noPreload(t)
			}
			s.stop()
			return
		}
		s.entered = append(s.entered, t)
	}
}

// until reads messages until f is satisfied, and reports whether it was before
// the end, or a long silence.
func (s *server) until(f func(*message) bool) bool {
	var mu sync.Mutex
	var watch *time.Timer
	pid, hung, grace := 0, false, 4
	used := groupTime(s.cmd.Process.Pid)
	mu.Lock()
	watch = time.AfterFunc(s.r.Silence, func() {
		mu.Lock()
		defer mu.Unlock()
		// Who says nothing and works is slow, as on a busy machine; for a while.
		if now := groupTime(s.cmd.Process.Pid); now-used > s.r.Silence/50 && grace > 0 {
			used = now
			grace--
			watch.Reset(s.r.Silence)
			return
		}
		hung = true
		if pid > 0 {
			endProcess(pid)
		} else {
			_ = s.cmd.Cancel()
		}
	})
	mu.Unlock()
	defer watch.Stop()
	for {
		text, err := s.out.ReadBytes('\n')
		if err != nil {
			return false
		}
		mu.Lock()
		watch.Reset(s.r.Silence)
		grace = 4
		mu.Unlock()
		var m message
		if json.Unmarshal(text, &m) != nil {
			continue
		}
		mu.Lock()
		if m.Pid > 0 {
			pid = m.Pid
		}
		m.hung = hung
		mu.Unlock()
		if f(&m) {
			return true
		}
	}
}

// run runs a command of the Python half in a child and hands its messages to f.
// It returns nil if the child came to its end.
func (s *server) run(f func(*line), args ...string) *end {
	os.Remove(s.stderr)
	err := s.start()
	if err == nil {
		err = s.request(map[string]any{"args": args, "stderr": s.stderr})
	}
	if err != nil {
		s.stop()
		return &end{state: err.Error()}
	}
	through, hung := false, false
	status := 0
	ok := s.until(func(m *message) bool {
		if m.Exit != nil {
			status, hung = *m.Exit, m.hung
			return true
		}
		if m.Pid == 0 {
			through = through || m.End || m.Missing != ""
			f(&m.line)
		}
		return false
	})
	if through && ok {
		return nil
	}
	e := &end{hung: hung}
	if data, err := os.ReadFile(s.stderr); err == nil {
		var t tail
		_, _ = t.Write(data)
		e.stderr = t.reason()
	}
	switch {
	case !ok:
		e.state = "the server of the checks is gone"
		if text := s.log.reason(); e.stderr == "" {
			e.stderr = text
		}
		s.stop()
	case status < 0:
		e.state = "signal: " + signalName(-status)
	case status != 0:
		e.state = fmt.Sprintf("exit status %d", status)
	default:
		e.state = "without a word"
	}
	return e
}

// noPreload notes that a library must not be imported before a fork.
func (r *runner) noPreload(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[string]bool{}
	for k, v := range r.preload {
		next[k] = v && k != target
	}
	r.preload = next
}

// preloadable are the targets whose libraries may be imported before a fork, as
// PRELOAD in targets.py says.
var preloadable = []string{
	"numpy", "ml_dtypes", "jax", "array-api-strict", "tvm-ffi", "pyarrow", "torch", "tensorflow", "paddle", "cuda.core",
	"warp", "nanobind",
}

// heavy are libraries whose import takes long, the longest first: what is tried
// with them happens in servers that have them.
var heavy = []string{"tensorflow", "paddle", "torch", "jax", "warp", "cuda.core", "pyarrow", "tvm-ffi"}

func weight(target string) int {
	if i := slices.Index(heavy, target); i >= 0 {
		return len(heavy) - i
	}
	if strings.Contains(target, "@") {
		return len(heavy) + 1
	}
	return 0
}
