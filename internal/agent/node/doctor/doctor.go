// Package doctor checks what this machine can do for a node, and says how to
// repair what does not work.
//
// A check is a small function with a name. It asks the World and returns
// findings; checks lists them all. A check repairs nothing and creates nothing,
// with or without a running node. It sends packets to loopback and to the
// configured peers, and to the LAN only if a node listens there. No finding
// contains a secret.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is the result of a check. The values are a contract with scripts.
type Status string

// The statuses, a contract with scripts.
const (
	OK   Status = "ok"
	Warn Status = "warn" // it works, but not as well as it could
	Fail Status = "fail" // something that is configured does not work
)

// Finding is one result of a check. The names in JSON are a contract with
// scripts.
type Finding struct {
	// Check is the name of the check. Examine sets it; checks leave it empty.
	Check string `json:"check"`
	// Status is OK, Warn or Fail.
	Status Status `json:"status"`
	// Detail is one line of text about what was found.
	Detail string `json:"detail"`
	// Fix says in one line what to do; empty when nothing is to be done.
	Fix string `json:"fix"`
}

// check is a named function that asks the World and returns findings. It must
// return within checkTimeout and must not change anything.
type check struct {
	name string
	ask  func(context.Context, *World) []Finding
}

// checks returns all checks, in the order in which a person looks for a fault:
// what is local first.
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
		{"notify", func(_ context.Context, w *World) []Finding { return notifyTargets(string(w.Options.State)) }},
	}
}

// checkTimeout bounds one check. Checks that use the network wait up to half of
// it for one answer. All checks run at the same time, so it is the duration of
// symbio doctor at most.
const checkTimeout = 6 * time.Second

// Examine runs all checks at the same time and returns their findings in the
// order of checks. It waits for all checks; the error comes from ctx.
func Examine(ctx context.Context, w *World) ([]Finding, error) {
	found := each(checks(), func(c check) []Finding {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		out := c.ask(ctx, w)
		for i := range out {
			out[i].Check = c.name
		}
		return out
	})
	return slices.Concat(found...), ctx.Err()
}

// ok returns a finding without a problem.
func ok(format string, args ...any) Finding {
	return Finding{Status: OK, Detail: line(fmt.Sprintf(format, args...))}
}

// warn returns a finding about something that works, but not well. fix says
// what to do.
func warn(fix, format string, args ...any) Finding {
	return Finding{Status: Warn, Detail: line(fmt.Sprintf(format, args...)), Fix: line(fix)}
}

// fail returns a finding about something that is configured and does not work.
// fix says what to do.
func fail(fix, format string, args ...any) Finding {
	return Finding{Status: Fail, Detail: line(fmt.Sprintf(format, args...)), Fix: line(fix)}
}

// line replaces line breaks by spaces: a finding is one line of output.
func line(s string) string { return strings.Join(strings.Fields(s), " ") }
