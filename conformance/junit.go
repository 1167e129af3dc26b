package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/go-handoff/handoff/conformance/rules"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Error   *junitMessage `xml:"error,omitempty"`
	Skipped *junitMessage `xml:"skipped,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML: a suite per target, a test case
// per rule, and a suite for the matrix, a test case per pair. A MUST that is
// broken, a crash and an exchange that went wrong are failures; weaker rules
// that are not kept, and rules that were not decided, count as skipped and say
// why.
func (r *Report) WriteJUnit(w io.Writer) error {
	all := junitSuites{Name: "handoff conform", Time: fmt.Sprintf("%.3f", r.Seconds)}
	for _, t := range r.Targets {
		if t.Missing == "" && len(t.Rules) == 0 {
			continue // only the matrix was asked for
		}
		s := junitSuite{Name: t.Name, Time: fmt.Sprintf("%.3f", t.Seconds)}
		if t.Missing != "" {
			s.Cases = append(s.Cases, junitCase{Name: "target", Class: t.Name, Skipped: &junitMessage{Message: t.Missing}})
			s.Skipped++
		}
		for _, res := range t.Rules {
			rule := rules.Get(res.Rule)
			c := junitCase{Name: res.Rule + " " + rule.Text(), Class: t.Name + "." + string(rule.Protocol)}
			m := &junitMessage{Message: res.What, Type: string(rule.Strength), Text: rule.Text() + "\n" + res.What}
			switch {
			case res.Status == Failed:
				c.Error = m
				s.Errors++
			case res.Status.Bad() && (rule.Strength == rules.Must || res.Status == Crashed):
				c.Failure = m
				s.Failures++
			case res.Status != Kept:
				c.Skipped = &junitMessage{Message: string(res.Status) + ": " + res.What}
				s.Skipped++
			}
			s.Cases = append(s.Cases, c)
		}
		s.Tests = len(s.Cases)
		all.Tests += s.Tests
		all.Failures += s.Failures + s.Errors
		all.Suites = append(all.Suites, s)
	}
	if len(r.Pairs) > 0 {
		s := r.junitMatrix()
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", " ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// junitMatrix is the suite of the pairs.
func (r *Report) junitMatrix() junitSuite {
	s := junitSuite{Name: "matrix", Time: "0.000", Tests: len(r.Pairs)}
	for _, p := range r.Pairs {
		c := junitCase{Name: p.Producer + " to " + p.Consumer, Class: "matrix"}
		var text strings.Builder
		tried := 0
		for _, x := range p.Cells {
			if x.Status != "missing" {
				tried++
			}
			if !badCell(x.Status) {
				continue
			}
			fmt.Fprintf(&text, "%s %s: %s: %s", x.Protocol, x.Case, x.Status, x.What)
			if x.Blame != "" {
				fmt.Fprintf(&text, " (%s)", x.Blame)
			}
			text.WriteByte('\n')
		}
		switch {
		case text.Len() > 0:
			c.Failure = &junitMessage{Message: firstLine(text.String()), Text: text.String()}
			s.Failures++
		case tried == 0:
			c.Skipped = &junitMessage{Message: "there is nothing that both sides have"}
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
	}
	return s
}
