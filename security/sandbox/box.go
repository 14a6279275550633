package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"symbio/internal/security/gitenv"
	"symbio/internal/security/secret"
)

// Config configures a Box. The zero value is usable; its commands have no HOME and a PATH of the
// system's directories.
type Config struct {
	// Levels are those that may be used. Default (nil): Native, Bwrap, Landlock, Seatbelt. The best that
	// works is taken. Off is taken if it is named, and only then; an empty list is None. It comes
	// from the user's own configuration, never from a project's, a skill's or a model's.
	Levels []Level
	// Env is the environment of this program, as of os.Environ, from which the named variables are
	// taken.
	Env []string
	// Home is the user's home; shell settings are protected there if it can be written. "" = the
	// HOME of Env.
	Home string
	// Hide are files and directories that no command sees, beside the places in Home where programs
	// keep keys and passwords (package secret); absolute, those that exist when a command starts.
	// Files.Show lifts it for one policy.
	Hide []string
	// Protect are names to protect at the top of writable directories, beside Protected;
	// slash-separated, relative, those that exist.
	Protect []string
	// TempDir is where private directories for temporary files are made. Default: the system's.
	// Where it is named, what commands need each time waits there for the next (some empty directories),
	// and commands in writable directories on the same file system start faster.
	TempDir string
	// Disarmed is called with Result.Disarmed of each command that has any. It may be called from
	// several goroutines. Default (nil): none.
	Disarmed func(lines []string)
	// OnRun is called with each command of Run before it starts, and the function that it returns when
	// it has ended. They may be called from several goroutines. Default (nil): not called.
	OnRun func(ctx context.Context, argv []string) func(Result, error)
}

// Box runs commands at the level that this machine has. Probe makes it; the zero Box refuses
// everything. It may be used from many goroutines at once.
type Box struct {
	cfg          Config
	here         machine
	repositories *repositories
	// masks is the directory of the masks that wait for their next use; "" is none.
	masks string
}

// machine is what Probe found out about this machine.
type machine struct {
	level       Level
	landlockABI int
	// uncounted says that the limit on the number of processes does not hold.
	uncounted bool
	// mend is advice on how to get a better level, as an imperative; "" is none.
	mend string
	// unsure says that a better level took too long to try.
	unsure bool
}

// Probe finds out what this machine can do by running /bin/true at each level, best first, until
// one works: about 10 ms for each. Keep the Box for as long as the program runs. ctx bounds it;
// what was not found out by then counts as not there, and Status says so.
func Probe(ctx context.Context, cfg Config) *Box {
	if cfg.Levels == nil {
		cfg.Levels = []Level{Native, Bwrap, Landlock, Seatbelt}
	}
	masks := ""
	if cfg.TempDir != "" {
		masks = filepath.Join(cfg.TempDir, ".symbio-masks")
	}
	cfg.TempDir = cmp.Or(cfg.TempDir, os.TempDir())
	cfg.Home = cmp.Or(cfg.Home, lookup(cfg.Env, "HOME"))
	if os.Geteuid() == 0 {
		cfg.Hide = slices.Concat(secret.System(), cfg.Hide) // nothing else closes them to a command of root's
	}
	cfg.Hide = meetPaths(slices.Concat(secret.Paths(cfg.Home), cfg.Hide), []string{string(filepath.Separator)})
	if slices.Contains(cfg.Levels, Off) {
		return &Box{cfg: cfg, here: machine{level: Off}}
	}
	return &Box{cfg: cfg, here: probe(ctx, cfg), repositories: new(repositories), masks: masks}
}

// Status returns the level, and its gaps.
func (b *Box) Status() Status {
	return Status{Level: b.here.level, Missing: b.here.missing(), Mend: b.here.mend, Unsure: b.here.unsure}
}

// Check returns nil if this machine can enforce all of the policy, else the *Refusal that Run would
// return. A caller that can ask a person shows what is lacking, and sets Spec.Accept if the person
// agrees.
func (b *Box) Check(p Policy) error {
	lacks := b.here.lacks(p)
	if b.here.level > Off {
		lacks = append(lacks, b.Gaps(p.Files)...)
	}
	if len(lacks) > 0 {
		return &Refusal{Level: b.here.level, Lacks: lacks, Mend: b.here.mend}
	}
	return nil
}

// always are the variables that every command may have.
var always = []string{"PATH", "HOME", "LANG", "TERM", "TMPDIR"}

// alwaysWindows are those without which programs of Windows cannot start.
var alwaysWindows = []string{"SystemRoot", "TEMP", "TMP", "PATHEXT", "USERPROFILE"}

// systemPath is where programs are on every system that has a sandbox.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the variables of the command, sorted: the variables of gitenv.Hardened, over these the named variables
// of this program, and over these the given ones of the Spec. temp is the directory for temporary
// files, "" if there is none. It is an error to inherit a variable whose name looks like a
// secret's, and to give one that the policy does not name. home is the HOME of a command that has
// one of its own.
func (b *Box) environment(p Policy, given []string, temp, home string) ([]string, error) {
	allowed := slices.Concat(always, p.Env)
	if runtime.GOOS == "windows" {
		allowed = append(allowed, alwaysWindows...)
	}
	values := map[string]string{"PATH": systemPath}
	for _, kv := range gitenv.Hardened() {
		name, v, _ := strings.Cut(kv, "=")
		values[name] = v
	}
	for _, name := range allowed {
		v := lookup(b.cfg.Env, name)
		if v == "" || name == "TMPDIR" || slices.ContainsFunc(given, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			continue
		}
		if confidential(name) {
			return nil, fmt.Errorf("the variable %s looks like a secret, which commands do not inherit: give it to the command by its value", name)
		}
		values[name] = v
	}
	for name, v := range map[string]string{"TMPDIR": temp, "HOME": home} {
		if v != "" {
			values[name] = v
		}
	}
	for _, kv := range given {
		name, v, found := strings.Cut(kv, "=")
		switch {
		case !found || name == "" || strings.ContainsRune(kv, 0):
			return nil, fmt.Errorf("the variable %q is not of the form NAME=VALUE", name)
		case !slices.Contains(allowed, name):
			return nil, fmt.Errorf("the policy does not let the variable %s in", name)
		}
		values[name] = v
	}
	env := make([]string, 0, len(values))
	for name, v := range values {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env, nil
}

// confidential reports whether a variable of this name is meant for this program alone, such as a
// model's API key. Regardless of case.
func confidential(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"API_KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "PRIVATE_KEY", "ACCESS_KEY"},
		func(word string) bool { return strings.Contains(name, word) })
}

// lookup returns the last value of a variable; "" if it is not set.
func lookup(env []string, name string) (value string) {
	for _, kv := range env {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			value = v
		}
	}
	return value
}
