// Package doctor looks at what this machine can do for a node, and says of each thing that is wrong how to mend it.
//
// The one idea: a check is a small function with a name, which asks the World and returns findings; the list of them
// all is in this file. A check mends nothing and makes nothing, with or without a running node. Packets go to loopback
// only, unless a node is to be reached from other machines, and to the peers that are configured.
//
// Checks run beside each other, and their findings come in the order of the list. No finding contains a secret.
package doctor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Status is how a thing is.
type Status string

// The statuses, a contract with scripts.
const (
	OK   Status = "ok"
	Warn Status = "warn" // it works, but not as well as it could
	Fail Status = "fail" // something that is configured does not work
)

// Finding is what a check found of one thing. The names are a contract with scripts.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	// Fix says in one line what to do; empty when nothing is to be done.
	Fix string `json:"fix"`
}

// check is one question about the world.
type check struct {
	name string
	ask  func(context.Context, *World) []Finding
}

// checks are all there are, in the order in which somebody looks for a fault.
func checks() []check {
	return []check{
		{"configuration", configuration},
		{"node", runningNodes},
		{"interface", interfaces},
		{"multicast", multicast},
		{"mdns-port", mdnsPort},
		{"listen", listen},
		{"peer", configuredPeers},
		{"dns", configuredNames},
		{"discovery", sourcesWork},
		{"seen", nodesSeen},
		{"certificate", certificates},
		{"clock", clock},
		{"model", model},
		{"agent", definitions},
		{"workspace", workspace},
		{"sandbox", commandSandbox},
		{"lending", lendsAgents},
		{"state", state},
		{"skill", leftOutSkills},
	}
}

// patience is how long one check may take. Those that ask the network take up to half of it for each answer, and all
// checks run at the same time.
const patience = 6 * time.Second

// Examine runs all checks. It returns early only when ctx ends, with that error.
func Examine(ctx context.Context, w *World) ([]Finding, error) {
	all := checks()
	found := make([][]Finding, len(all))
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			found[i] = c.ask(ctx, w)
			for j := range found[i] {
				found[i][j].Check = c.name
			}
		})
	}
	running.Wait()
	var flat []Finding
	for _, f := range found {
		flat = append(flat, f...)
	}
	return flat, ctx.Err()
}

func ok(format string, args ...any) Finding {
	return Finding{Status: OK, Detail: line(fmt.Sprintf(format, args...))}
}

func warn(fix, format string, args ...any) Finding {
	return Finding{Status: Warn, Detail: line(fmt.Sprintf(format, args...)), Fix: line(fix)}
}

func fail(fix, format string, args ...any) Finding {
	return Finding{Status: Fail, Detail: line(fmt.Sprintf(format, args...)), Fix: line(fix)}
}

// line makes one line of text that may have several.
func line(s string) string { return strings.Join(strings.Fields(s), " ") }
