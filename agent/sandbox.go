package agent

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"symbio/security/sandbox"
)

// Sandbox is what a definition takes away from what the node lets commands do. The zero Sandbox takes nothing.
type Sandbox struct {
	// Preset is restrictive, standard or permissive, as in the node's configuration; "" = permissive, which takes
	// nothing.
	Preset string
	// Network is none, local or full, which takes nothing; "" = full.
	Network string
	// Write are the only directories that commands may write, beside temporary files; absolute, or below the working
	// directory. They have to exist when an agent begins. nil = those of the node.
	Write []string
	// Env are the only variables of the node's environment that commands may see. nil = those of the node.
	Env []string
	// NoSubprocess keeps commands from starting other programs.
	NoSubprocess bool
	// Limits of each command; zero fields take nothing.
	Limits sandbox.Limits
}

// IsZero says that it takes nothing.
func (s Sandbox) IsZero() bool {
	return s.Preset == "" && s.Network == "" && s.Write == nil && s.Env == nil && !s.NoSubprocess && s.Limits == sandbox.Limits{}
}

// narrowing is what is put around a policy. It returns what of the policy is left, and may be called from many goroutines.
type narrowing func(sandbox.Policy) sandbox.Policy

// Narrow is what it leaves of a policy for commands in a working directory. The error names a directory that cannot be
// written because it is not there.
func (s Sandbox) Narrow(p sandbox.Policy, dir string) (sandbox.Policy, error) {
	narrow, err := s.narrowing(dir)
	if err != nil {
		return sandbox.Policy{}, err
	}
	return narrow(p), nil
}

// narrowing resolves the directories, so that what somebody puts in their place later is not written.
func (s Sandbox) narrowing(dir string) (narrowing, error) {
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
			with.Env, with.Files.Show = p.Env, p.Files.Show // of these a preset says nothing
			p = sandbox.Meet(p, with)
		}
		return s.rest(p, write)
	}, nil
}

// rest takes what is named beside the preset.
func (s Sandbox) rest(p sandbox.Policy, write []string) sandbox.Policy {
	only := p
	if s.Write != nil {
		only.Files.Read, only.Files.Write = slices.Concat(p.Files.Read, p.Files.Write), write
	}
	if n, ok := networks[s.Network]; ok {
		only.Network = n
	}
	if s.Env != nil {
		only.Env = s.Env
	}
	only.Subprocess = p.Subprocess && !s.NoSubprocess
	l := s.Limits
	only.Limits = sandbox.Limits{
		CPU: lower(l.CPU, p.Limits.CPU), FileSize: lower(l.FileSize, p.Limits.FileSize), OpenFiles: lower(l.OpenFiles, p.Limits.OpenFiles),
		Processes: lower(l.Processes, p.Limits.Processes), Memory: lower(l.Memory, p.Limits.Memory),
	}
	return sandbox.Meet(p, only)
}

var networks = map[string]sandbox.Network{"none": sandbox.NetworkNone, "local": sandbox.NetworkLocal, "full": sandbox.NetworkFull}

// sandbox reads a Sandbox; a word alone is its preset.
func (f *front) sandbox(n *yaml.Node, s *Sandbox) {
	if n.Kind == yaml.ScalarNode {
		f.sandboxPreset("sandbox", &s.Preset)(pair{value: n})
		return
	}
	if n.Kind == yaml.MappingNode {
		if n = f.withoutNodes(n); len(n.Content) == 0 {
			return
		}
	}
	yes := true
	f.fields("sandbox", n, map[string]func(pair){
		"preset":  f.sandboxPreset("sandbox.preset", &s.Preset),
		"network": f.word("sandbox.network", []string{"none", "local", "full"}, &s.Network),
		"write":   f.list("sandbox.write", "[build]", func(all []item) { s.Write = f.places(all) }),
		"env":     f.list("sandbox.env", "[LANG]", func(all []item) { s.Env = texts(all) }),
		"subprocess": func(p pair) {
			if p.value.Kind != yaml.ScalarNode || p.value.Decode(&yes) != nil {
				f.bad(p.value.Line, "sandbox.subprocess is true or false")
			}
			s.NoSubprocess = !yes
		},
		"limits": func(p pair) {
			f.fields("sandbox.limits", p.value, map[string]func(pair){
				"cpu":        f.duration("sandbox.limits.cpu", &s.Limits.CPU),
				"file_size":  f.size("sandbox.limits.file_size", &s.Limits.FileSize),
				"open_files": f.number("sandbox.limits.open_files", 1, &s.Limits.OpenFiles),
				"processes":  f.number("sandbox.limits.processes", 1, &s.Limits.Processes),
				"memory":     f.size("sandbox.limits.memory", &s.Limits.Memory),
			})
		},
	})
}

// nodesOwn are keys of the node's sandbox that are not for a definition.
var nodesOwn = []string{"show", "hide", "levels"}

// withoutNodes is a mapping without the keys that only the node's sandbox has, each of which is a problem.
func (f *front) withoutNodes(n *yaml.Node) *yaml.Node {
	rest := *n
	rest.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; slices.Contains(nodesOwn, key.Value) {
			f.bad(key.Line, "sandbox.%s stands in the sandbox of the node's configuration alone", key.Value)
			continue
		}
		rest.Content = append(rest.Content, n.Content[i], n.Content[i+1])
	}
	return &rest
}

func (f *front) sandboxPreset(name string, to *string) func(pair) {
	return func(p pair) {
		if p.value.Kind == yaml.ScalarNode && p.value.Value == "off" {
			f.bad(p.value.Line, "%s: a definition cannot switch the sandbox off; only the node's configuration can", name)
			return
		}
		f.word(name, []string{"restrictive", "standard", "permissive"}, to)(p)
	}
}

func (f *front) places(all []item) []string {
	for _, one := range all {
		if strings.HasPrefix(one.text, "~") || strings.ContainsRune(one.text, 0) {
			f.bad(one.line, "sandbox.write %q: it is an absolute path, or one below the working directory", one.text)
		}
	}
	return texts(all)
}

func (f *front) duration(name string, to *time.Duration) func(pair) {
	return func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Decode(to) != nil || *to <= 0 {
			f.bad(p.value.Line, "%s is how long, such as 30s or 5m", name)
		}
	}
}

var sizeForm = regexp.MustCompile(`^([1-9][0-9]{0,17})\s*(|[KMGT]i?B?)$`)

// size reads bytes: a number, also with KiB, MiB, GiB or TiB.
func (f *front) size(name string, to *int64) func(pair) {
	return func(p pair) {
		m := sizeForm.FindStringSubmatch(p.value.Value)
		if p.value.Kind != yaml.ScalarNode || m == nil {
			f.bad(p.value.Line, "%s is how many bytes, such as 512MiB", name)
			return
		}
		n, err := strconv.ParseInt(m[1], 10, 64)
		shift := 10 * (1 + strings.Index("KMGT", (m[2] + "-")[:1]))
		if err != nil || n > (1<<62)>>shift {
			f.bad(p.value.Line, "%s %s is too large", name, p.value.Value)
			return
		}
		*to = n << shift
	}
}

// budget reads limits by the names that they have in a configuration. A limit of nothing would be one that is not said.
func (f *front) budget(n *yaml.Node, l *Limits) {
	read := map[string]func(pair){}
	for i := range reflect.TypeFor[Limits]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[Limits]().Field(i).Tag.Get("yaml"), ",")
		field := reflect.ValueOf(l).Elem().Field(i)
		if name == "" || name == "-" {
			continue
		}
		read[name] = func(p pair) {
			err := errors.New("no scalar")
			if p.value.Kind == yaml.ScalarNode {
				err = p.value.Decode(field.Addr().Interface())
			}
			switch {
			case err != nil && field.Type() == reflect.TypeFor[time.Duration]():
				f.bad(p.value.Line, "budget.%s is how long, such as 30s or 5m", name)
			case err != nil:
				f.bad(p.value.Line, "budget.%s is a number", name)
			case !positive(field):
				hint := ""
				if name == "agents" || name == "depth" {
					hint = "; for an agent without sub-agents leave replicate_agent out of its tools"
				}
				f.bad(p.value.Line, "budget.%s has to be above 0%s", name, hint)
			}
		}
	}
	f.fields("budget", n, read)
}

func positive(v reflect.Value) bool {
	if v.CanFloat() {
		return v.Float() > 0 // not a number is not
	}
	return !v.CanInt() || v.Int() > 0
}
