package definition

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"symbio/security/sandbox"
)

// Sandbox restricts what the node lets commands do. The zero Sandbox restricts nothing.
type Sandbox struct {
	// Preset is restrictive, standard or permissive, as in the node's configuration; "" =
	// permissive, which takes nothing.
	Preset string
	// Network is none, local or full, which takes nothing; "" = full.
	Network string
	// Write are the only directories that commands may write, beside temporary files; absolute, or
	// below the working directory. They have to exist when an agent begins. nil = the paths of the
	// node.
	Write []string
	// Env are the only variables of the node's environment that commands may see. nil = the variables of
	// the node.
	Env []string
	// Sockets are the only Unix sockets to which commands may connect, out of the node's. nil =
	// all of the node's.
	Sockets []string
	// NoSubprocess keeps commands from starting other programs.
	NoSubprocess bool
	// Limits of each command; zero fields take nothing.
	Limits sandbox.Limits
}

// IsZero reports whether it restricts nothing.
func (s Sandbox) IsZero() bool {
	return s.Preset == "" && s.Network == "" && s.Write == nil && s.Env == nil && s.Sockets == nil && !s.NoSubprocess && s.Limits == sandbox.Limits{}
}

// Constrain returns what is left of a policy for commands in a working directory. The error names a
// directory that cannot be written because it does not exist.
func (s Sandbox) Constrain(p sandbox.Policy, dir string) (sandbox.Policy, error) {
	constrain, err := s.Constraint(dir)
	if err != nil {
		return sandbox.Policy{}, err
	}
	return constrain(p), nil
}

// Constraint returns Constrain as a function of the policy, for any number of goroutines. It
// resolves the directories once, so that a directory put in the place of one of them later cannot
// be written.
func (s Sandbox) Constraint(dir string) (func(sandbox.Policy) sandbox.Policy, error) {
	preset := sandbox.Permissive()
	switch s.Preset {
	case "restrictive":
		preset = sandbox.Restrictive()
	case "standard":
		var err error
		if preset, err = sandbox.Standard(dir); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	var write []string
	for _, path := range s.Write {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		at, err := sandbox.Custom(nil, []string{path})
		if err != nil {
			return nil, fmt.Errorf("sandbox.write: %w", err)
		}
		write = append(write, at.Write...)
	}
	return func(p sandbox.Policy) sandbox.Policy {
		if s.Preset == "restrictive" || s.Preset == "standard" {
			with := preset
			with.Env, with.Files.Show, with.Files.Sockets = p.Env, p.Files.Show, p.Files.Sockets // of these a preset says nothing
			p = sandbox.Meet(p, with)
		}
		return s.rest(p, write)
	}, nil
}

// rest applies what is set beside the preset.
func (s Sandbox) rest(p sandbox.Policy, write []string) sandbox.Policy {
	// only is p with the restrictions. Meet then keeps what both allow, so that a value beyond p
	// has no effect.
	only := p
	if s.Write != nil {
		// Directories that p may write stay readable.
		only.Files.Read, only.Files.Write = slices.Concat(p.Files.Read, p.Files.Write), write
	}
	if n, ok := networks[s.Network]; ok {
		only.Network = n
	}
	if s.Env != nil {
		only.Env = s.Env
	}
	if s.Sockets != nil {
		only.Files.Sockets = s.Sockets
	}
	only.Subprocess = p.Subprocess && !s.NoSubprocess
	l := s.Limits
	only.Limits = sandbox.Limits{
		CPU: cmp.Or(l.CPU, p.Limits.CPU), FileSize: cmp.Or(l.FileSize, p.Limits.FileSize), OpenFiles: cmp.Or(l.OpenFiles, p.Limits.OpenFiles),
		Processes: cmp.Or(l.Processes, p.Limits.Processes), Memory: cmp.Or(l.Memory, p.Limits.Memory),
	}
	return sandbox.Meet(p, only)
}

// networks are the values of Sandbox.Network; "" is not among them and changes nothing.
var networks = map[string]sandbox.Network{"none": sandbox.NetworkNone, "local": sandbox.NetworkLocal, "full": sandbox.NetworkFull}
