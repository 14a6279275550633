package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"symbio/agent/tool"
	"symbio/agent/tool/security"
	"symbio/agent/tool/web"
	"symbio/internal/agent/tool/shell"
	"symbio/security/sandbox"
)

// maxText limits the answers of the file tools. It is below what a Set shows by default, so that
// the tool itself decides what to cut.
const maxText = 48 << 10

// Config sets up a Workspace. The zero Config is all tools but WebSearch in the working directory
// of the process.
type Config struct {
	// Dir is the directory that the tools work in. Default: the working directory of the process.
	Dir string
	// Directories are further directories whose files the tools can open, by absolute paths.
	Directories []string
	// Security is the sandbox of Bash and Git, at the best level that the machine has. Git has the
	// standard sandbox where Bash has none. Default: the standard sandbox. An agent's use of the tools is limited in its agent.Order or
	// tool.SetConfig.
	Security security.Config
	// Commands sets up Bash and Git. If it has a Box, that and its Policy are used in place of
	// Security.
	Commands shell.Config
	// Fetch sets up WebFetch.
	Fetch web.Config
	// Search answers WebSearch. Default: there is no WebSearch.
	Search web.Searcher
}

// Workspace is a directory and the tools that work in it. Its methods may be called from many
// goroutines.
type Workspace struct {
	// cfg is the Config with its defaults.
	cfg Config
	// dirs are Config.Dir, then Config.Directories.
	dirs []*workdir
}

// New opens cfg.Dir as a workspace. The caller must close it. It returns an error if a directory
// cannot be opened or the policy of the sandbox cannot be made. It does not probe the sandbox: the
// first command does.
func New(cfg Config) (*Workspace, error) {
	w := &Workspace{}
	for _, dir := range append([]string{cfg.Dir}, cfg.Directories...) {
		d, err := open(dir)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.dirs = append(w.dirs, d)
	}
	for _, other := range w.dirs[1:] {
		w.dirs[0].reach += ", " + other.dir
	}
	if cfg.Commands.Box == nil {
		var err error
		cfg.Commands.Box, cfg.Commands.Look = probeOnce(cfg.Security.Off()), probeOnce(false)
		if cfg.Commands.Policy, err = cfg.Security.SandboxPolicy(w.Dir()); err != nil {
			return nil, errors.Join(err, w.Close())
		}
		if cfg.Security.Off() {
			cfg.Commands.Git.Box = probeOnce(false)
			if cfg.Commands.Git.Policy, err = sandbox.Standard(w.Dir()); err != nil {
				return nil, errors.Join(err, w.Close())
			}
		}
	}
	w.cfg = cfg
	return w, nil
}

// probeOnce returns a function that finds out at its first call which sandbox the machine has. off
// means that commands run without a sandbox, except where a guardrail or an agent constrains them.
func probeOnce(off bool) func(context.Context) (*sandbox.Box, error) {
	probe := func(levels ...sandbox.Level) func() *sandbox.Box {
		return sync.OnceValue(func() *sandbox.Box {
			// The context of the first call must not end the probe: later calls use its result,
			// too.
			return sandbox.Probe(context.Background(), sandbox.Config{Levels: levels, Env: os.Environ()})
		})
	}
	// Each is probed at its first use only, because a probe starts processes.
	held, free := probe(), probe(sandbox.Off)
	return func(ctx context.Context) (*sandbox.Box, error) {
		if off && !tool.IsConstrained(ctx) {
			return free(), nil
		}
		return held(), nil
	}
}

// Dir returns the absolute path of the workspace. SetConfig.Dir must be it or a directory below it.
func (w *Workspace) Dir() string { return w.dirs[0].dir }

// Close closes the directory. Later and running calls of its tools return an error result.
func (w *Workspace) Close() error {
	var errs []error
	for _, d := range w.dirs {
		errs = append(errs, d.root.Close())
	}
	return errors.Join(errs...)
}

// Tools returns Read, Glob, Grep, Write, Edit, MultiEdit, Bash, Git, WebFetch and, if Config.Search
// is set, WebSearch. tool.Named selects some of them.
func (w *Workspace) Tools() []tool.Tool {
	all := append([]tool.Tool{w.readTool(), w.globTool(), w.grepTool(), w.writeTool()}, editTools(w)...)
	all = append(append(all, shell.Tools(w.cfg.Commands)...), web.New(w.cfg.Fetch).Tool())
	if w.cfg.Search != nil {
		all = append(all, web.SearchTool(w.cfg.Search))
	}
	return all
}

// of returns the directory that contains path. It returns the first for a path that is nowhere, whose
// method then returns the error.
func (w *Workspace) of(ctx context.Context, path string) *workdir {
	for _, d := range w.dirs {
		if _, err := d.within(ctx, orDot(path)); err == nil {
			return d
		}
	}
	return w.dirs[0]
}

// CheckPath returns why no tool accepts a path, wherever it leads; nil if they do.
func CheckPath(path string) error {
	switch {
	case path == "":
		return errors.New("the path is empty; give the path of a file")
	case strings.ContainsRune(path, 0):
		return errors.New("a path cannot hold a NUL")
	case path == "~" || strings.HasPrefix(path, "~/"):
		return fmt.Errorf("%s: ~ is not expanded; give an absolute path, or one relative to the working directory", quoted(path))
	}
	return nil
}

// OpenRegular opens a regular file. It refuses everything else, because opening a pipe can block
// and opening a device can have effects.
func OpenRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(info)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, err
	}
	return f, info, nil
}

// errLeads is the error for a link to a file that needs a permission of its own.
func errLeads(path, at string) error {
	return fmt.Errorf("%s leads by a link to %s, which needs a permission of its own; name that file itself", quoted(path), quoted(at))
}

var errNotRegular = errors.New("not a regular file")

// notRegular is the error for a file of another type.
func notRegular(info fs.FileInfo) error {
	if info.IsDir() {
		return fmt.Errorf("%w but a directory: use Glob to list it", errNotRegular)
	}
	return fmt.Errorf("%w but a pipe, socket or device", errNotRegular)
}

// explain turns a file error into one that says what to do. path is what the model wrote.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist; use Glob to see what is there", quoted(path))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: the system denies access to it", quoted(path))
	case errors.Is(err, os.ErrClosed):
		return errors.New("the workspace is closed")
	case strings.Contains(err.Error(), "escapes from parent"): // package os does not export it
		return fmt.Errorf("%s is, or lies behind, a symbolic link that leaves the workspace or is absolute; such links are not followed", quoted(path))
	case errors.Is(err, errNotRegular):
		return fmt.Errorf("%s is %w", quoted(path), err)
	}
	return fmt.Errorf("%s: %w", quoted(path), err)
}

// failed returns an error result. The text starts with the error as it is, often a file's name,
// whose case matters.
func failed(err error) tool.Result { return tool.Result{Text: err.Error() + ".", IsError: true} }

// quoted returns a file's name on one line, so that no two names look the same: as it is, or in
// Go's string syntax if it has characters that cannot be seen or that have a meaning in the output.
// Such are a # or a quotation mark at the beginning (a note, a quoted name), spaces at the ends,
// and the whole name total (the last line).
func quoted(name string) string {
	plain := name != "" && name != "total" && utf8.ValidString(name) && strings.TrimSpace(name) == name &&
		name[0] != '"' && name[0] != '#' &&
		strings.IndexFunc(name, func(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError }) < 0
	if plain {
		return name
	}
	return strconv.Quote(name)
}
