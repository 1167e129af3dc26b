package conformance

import (
	"slices"
	"strings"

	"github.com/go-handoff/handoff/conformance/rules"
)

// Status is what came of a rule on a target, or of a check.
type Status string

// Statuses of a rule, the worst first.
const (
	// Crashed: the process ended, or hung, while the rule was at stake.
	Crashed Status = "crashed"
	// Broken: the target does something else than the rule says.
	Broken Status = "broken"
	// Failed: the check itself did not get through; the target raised where
	// the check did not expect it.
	Failed Status = "error"
	// Kept: every check of the rule that applies found it kept.
	Kept Status = "kept"
	// Skipped: no check of the rule applies to the target.
	Skipped Status = "skipped"
	// Untestable: nobody can decide the rule from outside.
	Untestable Status = "untestable"
	// Unchecked: this suite has no check of the rule yet.
	Unchecked Status = "unchecked"
)

var severity = []Status{Crashed, Broken, Failed, Kept, Skipped}

// Bad reports whether the status speaks against the target.
func (s Status) Bad() bool { return s == Crashed || s == Broken || s == Failed }

// Report is what one run found.
type Report struct {
	// Suite is the version of the suite's report format.
	Suite int `json:"suite"`
	// Python is the version of the interpreter that ran the checks.
	Python string `json:"python"`
	// Platform is GOOS/GOARCH.
	Platform string `json:"platform"`
	// Started is when the run began, in RFC 3339.
	Started string `json:"started"`
	// Seconds is how long the run took.
	Seconds float64 `json:"seconds"`
	// Targets are in the order in which they were named.
	Targets []Target `json:"targets"`
	// Pairs are the cells of the matrix, empty if none was asked for.
	Pairs []Pair `json:"pairs,omitempty"`
}

// Target is what was found for one library.
type Target struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Missing says why the target could not be run; then there is no result.
	Missing string  `json:"missing,omitempty"`
	Seconds float64 `json:"seconds"`
	// Rules has one result for every rule that was asked for.
	Rules []Result `json:"rules"`
	// Checks are the checks that ran, with their inputs.
	Checks []Check `json:"checks"`
}

// Result is what was found for one rule.
type Result struct {
	Rule   string `json:"rule"`
	Status Status `json:"status"`
	// What says what the target did, or why the rule was skipped.
	What string `json:"what,omitempty"`
	// Checks are the names of the checks that looked at the rule.
	Checks []string `json:"checks,omitempty"`
	// Known is the deviation of [rules.Known] that this is, if it is one.
	Known string `json:"known,omitempty"`
	// Reason is why the target does not keep the rule, where its authors
	// have said so.
	Reason string `json:"reason,omitempty"`
}

// Strength returns how strongly the rule binds.
func (r *Result) Strength() rules.Strength { return rules.Get(r.Rule).Strength }

// Check is one check that ran on a target.
type Check struct {
	Name    string                `json:"check"`
	Side    string                `json:"side"`
	Text    string                `json:"text"`
	Inputs  []string              `json:"inputs,omitempty"`
	Notes   []string              `json:"notes,omitempty"`
	Trace   string                `json:"trace,omitempty"`
	Seconds float64               `json:"seconds"`
	Rules   map[string]RuleStatus `json:"rules"`
}

// RuleStatus is what one check says of one rule.
type RuleStatus struct {
	Status Status `json:"status"`
	What   string `json:"what,omitempty"`
}

// Pair is a producer and a consumer of the matrix.
type Pair struct {
	Producer string `json:"producer"`
	Consumer string `json:"consumer"`
	Cells    []Cell `json:"cells"`
}

// Cell is one exchange.
type Cell struct {
	Protocol string   `json:"protocol"`
	Case     string   `json:"case"`
	DType    string   `json:"dtype"`
	Shape    []int    `json:"shape"`
	Layout   string   `json:"layout"`
	Rules    []string `json:"rules"`
	// Status is "zero-copy" (same address, and a write shows), "copied",
	// "refused", "crashed", "wrong" (other elements, or a write that is pending is
	// not waited for), "taken" (cannot be looked into), "missing" (one side lacks
	// it) or "error".
	Status string `json:"status"`
	// What says what happened.
	What string `json:"what"`
	// How is the exception of a refusal.
	How string `json:"how,omitempty"`
	// Blame says who fails with a partner that keeps the rules too, where an
	// exchange crashed or gave other elements: "producer", "consumer", "both", or
	// "together" if each alone is fine. Where a write is not waited for it is who
	// has to order. Empty if it was not tried.
	Blame string `json:"blame,omitempty"`
	// Lost: read-only memory came out writable.
	Lost bool `json:"lost,omitempty"`
}

// Count returns how many rules of a strength have one of the statuses. An empty
// strength counts all.
func (t *Target) Count(s rules.Strength, of ...Status) int {
	n := 0
	for i := range t.Rules {
		if r := &t.Rules[i]; (s == "" || r.Strength() == s) && slices.Contains(of, r.Status) {
			n++
		}
	}
	return n
}

// Bad returns the results that speak against the target.
func (t *Target) Bad() []Result {
	var bad []Result
	for _, r := range t.Rules {
		if r.Status.Bad() {
			bad = append(bad, r)
		}
	}
	return bad
}

// merge builds the result per rule from the checks. only restricts the rules;
// nil means all.
func (t *Target) merge(covered map[string]bool, only []string, why map[string]string) {
	t.Rules = nil
	for _, rule := range rules.All() {
		if only != nil && !slices.Contains(only, rule.ID) {
			continue
		}
		r := Result{Rule: rule.ID, Reason: why[rule.ID]}
		best := len(severity)
		for _, c := range t.Checks {
			s, ok := c.Rules[rule.ID]
			if !ok {
				continue
			}
			r.Checks = append(r.Checks, c.Name)
			if i := slices.Index(severity, s.Status); i < best {
				best, r.Status, r.What = i, s.Status, s.What
			}
		}
		if best == len(severity) {
			switch why := rules.Untestable(rule.ID); {
			case why != "":
				r.Status, r.What = Untestable, why
			case covered[rule.ID]:
				r.Status, r.What = Skipped, "no check of this rule ran"
			default:
				r.Status, r.What = Unchecked, "this suite has no check of the rule for Python objects"
			}
		}
		if r.Status.Bad() {
			if d := rules.KnownFor(t.Name, rule.ID); d != nil {
				r.Known = d.Library + ": " + d.What
			}
		} else {
			r.Reason = ""
		}
		t.Rules = append(t.Rules, r)
	}
}

// Worse returns what is bad in r and was not bad in the baseline, one line
// each. A target that the baseline does not have is compared with a clean one.
func (r *Report) Worse(baseline *Report) []string {
	was := map[string]bool{}
	for _, t := range baseline.Targets {
		for _, res := range t.Bad() {
			was[t.Name+" "+res.Rule] = true
		}
	}
	for _, p := range baseline.Pairs {
		for _, c := range p.Cells {
			if badCell(c.Status) {
				was[p.Producer+">"+p.Consumer+" "+c.Protocol+" "+c.Case] = true
			}
		}
	}
	var worse []string
	for _, t := range r.Targets {
		for _, res := range t.Bad() {
			if !was[t.Name+" "+res.Rule] {
				worse = append(worse, t.Name+" "+res.Rule+": "+res.What)
			}
		}
	}
	for _, p := range r.Pairs {
		for _, c := range p.Cells {
			if badCell(c.Status) && !was[p.Producer+">"+p.Consumer+" "+c.Protocol+" "+c.Case] {
				worse = append(worse, p.Producer+" > "+p.Consumer+" "+c.Protocol+" "+c.Case+": "+c.Status)
			}
		}
	}
	return worse
}

func badCell(status string) bool {
	return status == "crashed" || status == "wrong" || status == "error"
}

// MustBroken returns "target rule" of each MUST that is broken. A rule that
// authors have given a reason for counts all the same.
func (r *Report) MustBroken() []string {
	var out []string
	for _, t := range r.Targets {
		for _, res := range t.Bad() {
			if res.Strength() == rules.Must {
				out = append(out, t.Name+" "+res.Rule)
			}
		}
	}
	return out
}

// firstLine cuts a text after its first line.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// Counts returns how many cells have each status.
func (p *Pair) Counts() map[string]int {
	n := map[string]int{}
	for _, c := range p.Cells {
		n[c.Status]++
	}
	return n
}
