// Package exec runs what a node runs on its machine beside the commands of its agents: the commands that answer calls of other
// nodes, and, for package mcpservers, MCP servers. It finds out which sandbox the machine has, and what that must hold.
package exec

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"symbio/agent/node/config"
	"symbio/agent/tool"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// Config sets up a Runner.
type Config struct {
	// Sandbox is the node's. A capability or a server may have one of its own.
	Sandbox config.Sandbox
	// Dir is where commands run, Home the user's home directory.
	Dir, Home string
	// Hide are files and directories that only the node reads.
	Hide []string
	// Temp is the directory for the sandbox's temporary files. It must lie where commands do not see it.
	Temp string
	// Denied are the files that the rules deny now.
	Denied func() *permission.Denied
	// Report gets what the machine can hold, when that has been found out. Default: not reported.
	Report func(sandbox.Status)
	// Disarmed is that of sandbox.Config.
	Disarmed func([]string)
	// MaxOutput is how many bytes the answer of a capability may have. Default 1 MiB.
	MaxOutput int
}

// Runner holds commands by the sandbox that the configuration asks for. It is safe for concurrent use.
type Runner struct {
	cfg        Config
	held, free func() (*sandbox.Box, error) // free holds nothing: the user has switched the sandbox off
}

func (r *Runner) maxOutput() int { return cmp.Or(r.cfg.MaxOutput, execOutput) }

// New returns a Runner. It finds out what the machine can hold when that is first needed.
func New(cfg Config) *Runner {
	probe := func(levels []sandbox.Level) func() (*sandbox.Box, error) {
		return settled(func() (*sandbox.Box, error) {
			if err := os.MkdirAll(cfg.Temp, 0o700); err != nil {
				return nil, err
			}
			c := Probing(cfg.Sandbox, cfg.Home, cfg.Hide)
			c.Levels, c.Env, c.TempDir, c.Disarmed = levels, os.Environ(), cfg.Temp, cfg.Disarmed
			b := sandbox.Probe(context.Background(), c) // not the context of the first call: all calls use what it finds out
			if cfg.Report != nil {
				cfg.Report(b.Status())
			}
			return b, nil
		})
	}
	return &Runner{cfg, probe(cfg.Sandbox.AllowedLevels()), probe([]sandbox.Level{sandbox.Off})}
}

// Probing is how to find out what a machine holds for a node with that sandbox, where only nodes read hide.
func Probing(s config.Sandbox, home string, hide []string) sandbox.Config {
	return sandbox.Config{Levels: s.AllowedLevels(), Home: home, Hide: append(hide[:len(hide):len(hide)], s.HiddenPaths(home)...)}
}

// settled returns the box that probe made, and probes again, at most once a minute, while it is not sure of its level.
func settled(probe func() (*sandbox.Box, error)) func() (*sandbox.Box, error) {
	var mu sync.Mutex
	var last time.Time   // guarded by mu
	var box *sandbox.Box // guarded by mu
	var err error        // guarded by mu
	return func() (*sandbox.Box, error) {
		mu.Lock()
		defer mu.Unlock()
		if last.IsZero() || (err != nil || box.Status().Unsure) && time.Since(last) >= time.Minute {
			box, err = probe()
			last = time.Now()
		}
		return box, err
	}
}

// Box is what runs commands under a sandbox. strict holds them also where the user has switched that sandbox off.
func (r *Runner) Box(s config.Sandbox, strict bool) (*sandbox.Box, error) {
	if s.IsOff() && !strict {
		return r.free()
	}
	return r.held()
}

// Over is the sandbox of a capability or server with one of its own, which may be nil.
func (r *Runner) Over(own *config.Sandbox) config.Sandbox { return r.cfg.Sandbox.Override(own) }

// Policy is what a command under a sandbox may do now: without the files that the rules deny.
func (r *Runner) Policy(s config.Sandbox) (sandbox.Policy, error) {
	p, err := s.Policy(r.cfg.Dir, r.cfg.Home)
	return tool.WithoutDenied(p, r.cfg.Denied()), err
}

// Hold returns the box and the policy for one command with a sandbox of its own, which may be nil.
func (r *Runner) Hold(own *config.Sandbox) (*sandbox.Box, sandbox.Policy, error) {
	s := r.Over(own)
	policy, err := r.Policy(s)
	if err != nil {
		return nil, policy, err
	}
	box, err := r.Box(s, false)
	return box, policy, err
}

// Refusal is a capability whose calls are refused, because the sandbox cannot hold its command on this machine.
type Refusal struct {
	Capability string
	// Why names what is lacking, Mend what to do about it.
	Why, Mend string
}

// Refusals finds the capabilities whose calls are refused, where held is what the machine can hold.
func (r *Runner) Refusals(all []config.Capability, held func() (*sandbox.Box, error)) (refused []Refusal, err error) {
	for _, c := range all {
		s := r.Over(c.Sandbox)
		if len(c.Exec) == 0 || s.IsOff() {
			continue
		}
		policy, err := r.Policy(s)
		box, bad := held()
		if err := errors.Join(err, bad); err != nil {
			return refused, err
		}
		if err := box.Check(policy); err != nil {
			refused = append(refused, refusal(c.Name, err, box))
		}
	}
	return refused, nil
}

func refusal(capability string, err error, held *sandbox.Box) Refusal {
	r := Refusal{Capability: capability, Why: err.Error()}
	var refused *sandbox.Refusal
	if errors.As(err, &refused) {
		r.Why = refused.Lacking()
		if refused.Mend != "" {
			r.Mend = refused.Mend + "; or "
		}
	}
	if held.Check(sandbox.Restrictive()) == nil {
		r.Mend += "if it only reads, write sandbox: {preset: restrictive} beside it in the configuration; or "
	}
	r.Mend += "if you trust it with all that you may do yourself, write sandbox: {preset: off} beside it in the configuration"
	return r
}

// Held is what holds commands on this machine.
func (r *Runner) Held() (*sandbox.Box, error) { return r.held() }
