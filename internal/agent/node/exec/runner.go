// Package exec runs what a node runs on its machine beside the commands of its
// agents: the commands that answer calls of other nodes, and, for package
// mcpservers, MCP servers. It finds out which sandbox the machine has, and what
// that must hold.
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
	// Sandbox is the sandbox of the node. A capability or a server may have its
	// own.
	Sandbox config.Sandbox
	// Dir is the working directory of commands, Home the home directory of the
	// user.
	Dir, Home string
	// Hide are files and directories that no command may see.
	Hide []string
	// Temp is the directory for the sandbox's temporary files. Commands must
	// not see it.
	Temp string
	// Denied returns the files that the rules deny now. It is called for each
	// command.
	Denied func() *permission.FileDenials
	// Report gets the result of each probe. Default: not reported.
	Report func(sandbox.Status)
	// Disarmed is sandbox.Config.Disarmed.
	Disarmed func([]string)
	// OnRun is sandbox.Config.OnRun.
	OnRun func(ctx context.Context, argv []string) func(sandbox.Result, error)
	// MaxOutput is the largest result of a capability, in bytes. Default 1 MiB.
	MaxOutput int
	// Artifacts are the node's. Default: commands take and give none.
	Artifacts Artifacts
}

// Runner makes sandboxes for commands. It probes the machine when the first
// command needs that. It is safe for concurrent use.
type Runner struct {
	cfg        Config
	held, free func() (*sandbox.Box, error) // free has no sandbox
}

// maxOutput returns the largest output of a command, in bytes.
func (r *Runner) maxOutput() int { return cmp.Or(r.cfg.MaxOutput, execOutput) }

// New returns a Runner. It does not touch the machine yet.
func New(cfg Config) *Runner {
	probe := func(levels []sandbox.Level) func() (*sandbox.Box, error) {
		return settled(func() (*sandbox.Box, error) {
			if err := os.MkdirAll(cfg.Temp, 0o700); err != nil {
				return nil, err
			}
			c := Probing(cfg.Sandbox, cfg.Home, cfg.Hide)
			c.Levels, c.Env, c.TempDir, c.Disarmed, c.OnRun = levels, os.Environ(), cfg.Temp, cfg.Disarmed, cfg.OnRun
			b := sandbox.Probe(context.Background(), c) // not the context of the first call: all calls use the result
			if cfg.Report != nil {
				cfg.Report(b.Status())
			}
			return b, nil
		})
	}
	return &Runner{cfg, probe(cfg.Sandbox.AllowedLevels()), probe([]sandbox.Level{sandbox.Off})}
}

// Probing returns the configuration for probing the sandbox of a node. hide are
// the files of nodes that commands must not see.
func Probing(s config.Sandbox, home string, hide []string) sandbox.Config {
	return sandbox.Config{Levels: s.AllowedLevels(), Home: home, Hide: append(hide[:len(hide):len(hide)], s.HiddenPaths(home)...)}
}

// settled returns a function that calls probe once and keeps its result. While
// the result is an error or unsure, as on a machine that was too busy to finish
// the probe, it calls probe again, at most once a minute. Concurrent callers
// wait for one probe.
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

// Box returns what runs commands under the sandbox s. strict keeps the sandbox
// even if s is off: for commands that a guardrail or a definition restricts.
func (r *Runner) Box(s config.Sandbox, strict bool) (*sandbox.Box, error) {
	if s.IsOff() && !strict {
		return r.free()
	}
	return r.held()
}

// Level returns how well this machine holds commands; sandbox.None if that cannot be found out.
func (r *Runner) Level() sandbox.Level {
	box, err := r.held()
	if err != nil {
		return sandbox.None
	}
	return box.Status().Level
}

// SandboxFor returns the sandbox of a capability or server; own is its own one
// and may be nil.
func (r *Runner) SandboxFor(own *config.Sandbox) config.Sandbox { return r.cfg.Sandbox.Override(own) }

// Policy returns what a command under a sandbox may do now, without the files
// that rules deny.
func (r *Runner) Policy(s config.Sandbox) (sandbox.Policy, error) {
	p, err := s.Policy(r.cfg.Dir, r.cfg.Home)
	return tool.WithoutDenied(p, r.cfg.Denied()), err
}

// Hold returns the box and the policy for one command; own is its own sandbox
// and may be nil.
func (r *Runner) Hold(own *config.Sandbox) (*sandbox.Box, sandbox.Policy, error) {
	s := r.SandboxFor(own)
	policy, err := r.Policy(s)
	if err != nil {
		return nil, policy, err
	}
	box, err := r.Box(s, false)
	return box, policy, err
}

// Refusal is a capability whose calls are refused, because this machine's
// sandbox cannot enforce its policy.
type Refusal struct {
	Capability string
	// Why says what is missing, Mend what to do about it.
	Why, Mend string
}

// Refusals returns the capabilities whose calls would be refused. held probes
// the sandbox; it is called only if a capability needs one.
func (r *Runner) Refusals(all []config.Capability, held func() (*sandbox.Box, error)) (refused []Refusal, err error) {
	for _, c := range all {
		s := r.SandboxFor(c.Sandbox)
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

// refusal returns the Refusal for an error of the sandbox, with advice. It
// suggests the restrictive preset only if this machine can enforce that.
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
		r.Mend += "if it only reads, add sandbox: {preset: restrictive} to it in the configuration; or "
	}
	r.Mend += "if you trust it with everything that you may do, add sandbox: {preset: off} to it in the configuration"
	return r
}

// Held returns the sandbox of this machine, probing it if needed.
func (r *Runner) Held() (*sandbox.Box, error) { return r.held() }
