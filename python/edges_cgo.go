//go:build cgo && linux && (amd64 || arm64)

package python

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-handoff/handoff/device/soft"
)

// madeEdge is an edge of the software device that a test hears of: by which C code it was made, as file:offset, and
// by which Go code.
type madeEdge struct {
	API string   `json:"api"`
	C   []string `json:"c"`
	Go  []string `json:"go"`
}

func (e *madeEdge) same(o *madeEdge) bool { return e.API == o.API && slices.Equal(e.C, o.C) }

// edges are those made since a test asked for them.
var edges struct {
	sync.Mutex
	watch   *watchedEdges
	without int // the one to leave out, counted from 1
	polls   string
	made    []madeEdge
	waits   int // how many of them block a thread
}

// gpuEdges is for tests of the edges that this package makes on the software device. "3" writes down those that are
// made from now on, and leaves out the third, "0" none; "end" ends that and returns them as JSON; "races"
// returns what was seen of missing synchronization, and forgets it. A question whether something is done, which may be
// asked again and again, is one edge for each place that asks. Those that the library asks by itself, now and then, are not
// counted unless "polled" follows the number and a colon; "deaf" leaves all of them out.
//
// What a test needs so that it does not depend on time: "waits" returns how often a thread was about to block, since the
// edges are written down; "idle" whether all work is done, which is no question that anybody learns from; "slow:50ms" makes
// each piece of work that late until "end".
func gpuEdges(what string) (string, error) {
	switch what {
	case "end":
		edges.Lock()
		w, made := edges.watch, edges.made
		edges.watch, edges.made = nil, nil
		edges.Unlock()
		if w != nil {
			w.end()
		}
		return told(made)
	case "races":
		var races []string
		for _, r := range soft.ForgetRaces() {
			races = append(races, fmt.Sprintf("%s by %s, %s by %s", r.First.Kind, r.First.Op, r.Second.Kind, r.Second.Op))
		}
		return told(races)
	case "idle":
		return strconv.FormatBool(soft.Idle()), nil
	case "waits":
		edges.Lock()
		defer edges.Unlock()
		return strconv.Itoa(edges.waits), nil
	}
	if late, ok := strings.CutPrefix(what, "slow:"); ok {
		return slowWork(late)
	}
	number, polls, _ := strings.Cut(what, ":")
	n, err := strconv.Atoi(number)
	if err != nil {
		return "", fmt.Errorf("edge number %q: %w", number, err)
	}
	if err := soft.StartHunt(); err != nil {
		return "", err
	}
	w := &watchedEdges{}
	edges.Lock()
	edges.watch, edges.without, edges.polls, edges.waits = w, n, polls, 0
	edges.Unlock()
	soft.OmitEdges(w, omitEdge)
	return "[]", nil
}

// slowWork makes all work late until the edges are no longer written down.
func slowWork(late string) (string, error) {
	d, err := time.ParseDuration(late)
	if err != nil {
		return "", err
	}
	edges.Lock()
	w := edges.watch
	edges.Unlock() // the device asks omitEdge with locks of its own held
	if w == nil {
		return "", errors.New("nobody ends that")
	}
	stop, err := soft.SlowStream(0, d)
	if err != nil {
		return "", err
	}
	w.Cleanup(stop)
	return "[]", nil
}

func told[T any](all []T) (string, error) {
	text, err := json.Marshal(append([]T{}, all...))
	return string(text), err
}

// omitEdge writes an edge down and says whether to leave it out.
func omitEdge(e soft.Edge) bool {
	m := madeEdge{API: e.API, C: []string{}, Go: []string{}}
	for _, f := range e.Native {
		m.C = append(m.C, fmt.Sprintf("%s:%#x", f.File, f.Offset))
	}
	polls := false
	for _, f := range e.Site {
		m.Go = append(m.Go, f.Func)
		polls = polls || strings.HasSuffix(f.Func, "/device.runPoller")
	}
	edges.Lock()
	defer edges.Unlock()
	if edges.watch == nil {
		return false
	}
	if polls && edges.polls != "polled" {
		return edges.polls == "deaf"
	}
	if strings.HasSuffix(e.API, "Synchronize") {
		edges.waits++
	}
	n := -1
	if strings.HasSuffix(e.API, "Query") {
		n = slices.IndexFunc(edges.made, func(o madeEdge) bool { return o.same(&m) })
	}
	if n < 0 {
		n = len(edges.made)
		edges.made = append(edges.made, m)
	}
	return n+1 == edges.without
}

// watchedEdges is what soft.OmitEdges takes for a test.
type watchedEdges struct{ later []func() }

func (*watchedEdges) Helper()               {}
func (*watchedEdges) Errorf(string, ...any) {}
func (w *watchedEdges) Cleanup(f func())    { w.later = append(w.later, f) }
func (w *watchedEdges) end() {
	for _, f := range w.later {
		f()
	}
}
