package mapcmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
)

// progress counts outcomes and shows them: as a bar on a terminal, else as a line every few seconds, with --json as an
// event. It is safe for concurrent use.
type progress struct {
	env   *command.Env
	begun time.Time

	mu     sync.Mutex
	counts counts // guarded by mu
	before int    // items that an earlier run finished; guarded by mu
	// failures are the first lines for people about failures, denied the lines about items with denied calls, and
	// denials what was denied; guarded by mu.
	failures, denied []string
	denials          chat.Denials
}

// maxFailures is how many failures are shown at the end, and how many items with denied calls. The output has them all.
const maxFailures = 5

// counts are how far the run is: an event of --json, whose names are a contract.
type counts struct {
	// Type is progress, and result in the last event.
	Type string `json:"type"`
	// Total is missing if it is not known before the end of the input.
	Total int `json:"total,omitempty"`
	// Done counts the items with an outcome, Failed the ones without a result, Lost the lost ones among these.
	Done   int `json:"done"`
	Failed int `json:"failed"`
	Lost   int `json:"lost"`
	// Denied counts items with a result and denied calls: they may be unfinished.
	Denied int `json:"denied"`
	// Nodes counts the results by node.
	Nodes map[string]int `json:"nodes"`
	// Rate is items per second of this run, Left how many seconds the rest takes at this rate; missing if not known.
	Rate float64 `json:"rate"`
	Left float64 `json:"left,omitempty"`
}

// count counts an outcome, of an earlier run or this one.
func (p *progress) count(o outcome, earlier bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Done++
	if earlier {
		p.before++
	}
	kind, why, lines := "failed", o.Error, &p.failures
	switch {
	case o.Lost:
		p.counts.Lost++
		kind = "lost"
		fallthrough
	case o.Error != "":
		p.counts.Failed++
	default:
		p.counts.Nodes[o.Node]++
		if len(o.Denials) == 0 {
			return
		}
		p.counts.Denied++
		kind, lines, why = "denied", &p.denied, visible.Plural(len(o.Denials)+o.OmittedDenials, "call")
	}
	for _, d := range o.Denials {
		p.denials.Add(d)
	}
	p.denials.Omitted += o.OmittedDenials
	if len(*lines) < maxFailures {
		*lines = append(*lines, fmt.Sprintf("%s: item %d, %s: %s", kind, o.Index, terminal.Clip(string(o.Item), 60), terminal.Clip(why, 300)))
	}
}

// now returns how far the run is now.
func (p *progress) now() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	c.Nodes = maps.Clone(c.Nodes)
	c.Rate = float64(c.Done-p.before) / max(time.Since(p.begun).Seconds(), 0.001)
	if c.Total > c.Done && c.Rate > 0 {
		c.Left = float64(c.Total-c.Done) / c.Rate
	}
	return c
}

// show shows how far the run is until ctx ends.
func (p *progress) show(ctx context.Context) {
	every, live := 5*time.Second, p.env.ErrIsTerminal && !p.env.JSON
	if live {
		every = 200 * time.Millisecond
		defer fmt.Fprint(p.env.Err, "\r\x1b[K")
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c := p.now(); p.env.JSON {
			_ = p.env.PrintLine(c) // the run goes on without a reader
		} else if live {
			fmt.Fprint(p.env.Err, "\r", terminal.Fit(c.line(), terminal.Columns(p.env.Err)), "\x1b[K")
		} else {
			p.env.Notef("%s", c.line())
		}
	}
}

// line returns how far the run is, for people.
func (c counts) line() string {
	text := fmt.Sprintf("%d done, %.1f/s", c.Done, c.Rate)
	if c.Total > 0 {
		const width = 20
		n := width * min(c.Done, c.Total) / c.Total
		text = fmt.Sprintf("[%-*s] %d/%d, %.1f/s", width, strings.Repeat("=", n), c.Done, c.Total, c.Rate)
		if c.Left > 0 { // else no item of this run has ended yet
			text += fmt.Sprintf(", %v left", time.Duration(c.Left*float64(time.Second)).Round(time.Second))
		}
	}
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d failed", c.Failed)
	}
	if c.Denied > 0 {
		text += fmt.Sprintf(", %d denied", c.Denied)
	}
	return text
}

// summary shows the outcomes of the items. The error counts items without a result, else items with denied calls.
func (p *progress) summary() (err error) {
	c := p.now()
	if c.Type = "result"; p.env.JSON {
		err = p.env.PrintLine(c)
	} else {
		p.env.Notef("%d of %s done in %v, %.1f/s, by node: %s", c.Done-c.Failed-c.Denied, visible.Plural(c.Done, "item"), time.Since(p.begun).Round(100*time.Millisecond), c.Rate,
			strings.Trim(strings.TrimPrefix(fmt.Sprint(c.Nodes), "map"), "[]"))
		for _, line := range slices.Concat(p.failures, p.denied) {
			p.env.Notef("%s", line)
		}
	}
	denials := p.denials.Text()
	switch {
	case err != nil:
	case c.Failed > 0:
		if denials != "" {
			fmt.Fprintln(p.env.Err, denials)
		}
		err = fmt.Errorf("%d of %s without a result, %d of them lost", c.Failed, visible.Plural(c.Done, "item"), c.Lost)
	case c.Denied > 0:
		err = command.Denied(fmt.Errorf("%d of %s may not be done: %s", c.Denied, visible.Plural(c.Done, "item"), denials))
	}
	return err
}
