//go:build unix

package permission_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"symbio/internal/security/permission/shell"
	"symbio/security/permission"
)

// What the rules allow is run by the real bash, in a directory where every program is a stub that logs
// its arguments. A program that the analysis does not list, or that no rule allows, or a file that no
// rule allows, is a violation. Scripts that are not allowed but said to be known are run too, and where
// bash reads them differently it is logged. `make fuzz-rules` runs a million scripts with a new seed;
// here it is a few seconds of the same ones. SYMBIO_FUZZ_SEED repeats a run.
func TestBashRunsNothingThatWasNotAllowed(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here: ", err)
	}
	seed, n := fuzzing(t, 2_500)
	t.Logf("seed %d, %d scripts", seed, n)
	d := newDifferential(t, bash, seed)
	for i := range n {
		d.try(d.gen.script(), i)
		if len(d.waiting) >= 400 || i == n-1 {
			d.runAll()
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d were run, %d of them allowed; %d commands ran; %d were run with real wrappers, which ran %d commands; %d commands of scripts that were not allowed were read differently", d.ran, d.allowed, d.commands, d.realRan, d.realCommands, d.differ)
	if n >= 2_500 && (d.allowed == 0 || d.commands == 0 || d.realCommands == 0) {
		t.Error("nothing was tested")
	}
}

// What bash evaluates twice: a text that an assignment, a builtin or an expansion expands or calculates
// with once more. Each form is decided by the presets and by rules that allow builtins, and is run if
// one of them allows it, or if the analysis says that it knows all that runs. None may run evil or make
// a file. SYMBIO_FUZZ_SCRIPTS sets how many there are, SYMBIO_FUZZ_SEED which.
func TestBashEvaluatesNothingTwiceThatWasNotAllowed(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here: ", err)
	}
	seed, n := fuzzing(t, 2_000)
	d := newDifferential(t, bash, seed)
	d.strict = true
	d.policies = []permission.Policy{permission.Standard(), permission.Development(), {Default: permission.Deny}, policy(t, denies),
		policy(t, "allow: Bash("+strings.Join(strings.Fields(builtins), ":*); Bash(")+":*) | default: ask")}
	forms := map[string]bool{}
	for len(forms) < n {
		text := d.gen.twice()
		if forms[text] {
			continue
		}
		forms[text] = true
		var run attempt
		for _, p := range d.policies {
			if a, known := d.decide(text, p); known && (run.text == "" || a.allowed && (!run.allowed || run.byDefault)) {
				run = a
			}
		}
		if run.text != "" {
			d.waiting = append(d.waiting, run)
		}
		if len(d.waiting) >= 400 || len(forms) == n {
			d.runAll()
		}
	}
	t.Logf("seed %d, %d forms: %d were run, %d of them allowed", seed, n, d.ran, d.allowed)
	if d.allowed == 0 || d.ran == d.allowed {
		t.Error("nothing was tested")
	}
}

// fuzzing returns the seed and the number of scripts: those of the environment, or n.
func fuzzing(t *testing.T, n int) (uint64, int) {
	seed := uint64(8) // this one has real wrappers among its few scripts
	for name, set := range map[string]func(uint64){"SYMBIO_FUZZ_SEED": func(v uint64) { seed = v },
		"SYMBIO_FUZZ_SCRIPTS": func(v uint64) { n = int(v) }} {
		if text := os.Getenv(name); text != "" {
			v, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatal(name, err)
			}
			set(v)
		}
	}
	return seed, n
}

// differential is one run.
type differential struct {
	t        *testing.T
	bash     string
	dir      string
	gen      generator
	policies []permission.Policy
	waiting  []attempt
	// strict makes it an error if a script that was not allowed runs what is not listed.
	strict bool

	stuck   int    // the last script that began before the time was up; -1 for none
	strange string // the last file that a script should not have made

	ran, allowed, commands, realRan, realCommands, differ int
}

// denies is a policy that allows what it does not deny: what it allows must never run evil, rm or x.
const denies = "deny: Bash(evil:*); Bash(rm:*) | final: Bash(x:*) | default: allow"

// builtins are those that a rule may allow. source is not among them: it runs a file that nothing reads.
const builtins = "alias bind break builtin caller cd command compgen complete compopt declare dirs disown echo enable eval exec exit export false getopts hash help history jobs let local mapfile popd printf pushd read readarray readonly return set shift shopt test [ times trap true type typeset ulimit umask unalias unset wait bash cat"

// attempt is a script to run. Of one that byDefault allowed only what is denied is a violation.
type attempt struct {
	byDefault bool

	text, script string
	program      shell.Program
	allowed      bool
}

// mine are the names that the policies allow; evil and rm are in none.
var mine = map[string]bool{"ok": true, "git": true, "echo": true, "cat": true, "env": true, "timeout": true, "nice": true, "xargs": true,
	"find": true, "command": true, "sh": true, "bash": true, "test": true, "[": true, "true": true, "false": true, "printf": true,
	"cd": true, "time": true, "nohup": true, "eval": true, "trap": true, "exec": true, "read": true, "export": true, "declare": true,
	"set": true}

func newDifferential(t *testing.T, bash string, seed uint64) *differential {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &differential{t: t, bash: bash, dir: dir, gen: generator{rand.New(rand.NewPCG(seed, 1))}}
	for _, sub := range []string{"run/d", "logs", "empty", "stubs", "home"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{
		"allow: Bash(ok:*); Bash(echo:*); Bash(git log:*) | default: ask",
		"allow: Bash(ok:*); Bash(echo:*); Bash(cat:*); Bash(cd:*); Bash(eval:*); Bash(trap:*); Bash(exec:*); Bash(printf:*); Write(" + dir + "/run/ok*) | default: ask",
		"allow: Bash(ok:*); Bash(env:*); Bash(timeout:*); Bash(xargs:*); Bash(find:*); Bash(sh:*); Bash(bash:*); Bash(echo:*); Bash(command:*); Bash(nice:*); Write(" + dir + "/run/ok*) | default: ask",
		denies,
		"deny: Bash(evil:*); Bash(rm:*) | final: Bash(x:*) | allow: Bash(ok:*); Bash(git:*); Bash(cat:*); Bash(test:*); Bash([:*); Bash(read:*); Bash(export:*); Bash(declare:*); Bash(set:*) | default: ask",
	} {
		d.policies = append(d.policies, policy(t, text))
	}
	stub := "#!/bin/sh\nprintf '%s\\037' '\x1eC'\"${0##*/}\" \"$@\" >>" + dir + "/log\n"
	for _, name := range []string{"ok", "git", "cat", "evil", "rm", "x", "echo", "log", "a", "b", "test"} {
		if err := os.WriteFile(filepath.Join(dir, "stubs", name), []byte(stub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"env", "timeout", "nice", "xargs", "find", "sh", "bash", "nohup"} {
		if at, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(at, filepath.Join(dir, "stubs", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return d
}

// decide judges a script. known is false if it is not known what it does, and it must not be run.
func (d *differential) decide(text string, p permission.Policy) (a attempt, known bool) {
	byDefault := p.Default == permission.Allow
	v := permission.Chain{{Policy: p}}.Judge(permission.Call{Tool: "Bash", Args: map[string]any{"command": text}, Dir: d.dir + "/run"})
	a = attempt{text: text, script: text, allowed: v.Action == permission.Allow, byDefault: byDefault}
	if v.Plan != nil && v.Plan.Printed {
		a.script = v.Plan.Script
	}
	a.program = shell.Parse(text)
	return a, a.allowed && !byDefault || !a.program.Runs() && v.Plan != nil && v.Plan.Printed && confined(a.program)
}

// try judges a script, and keeps it when something is known about what it does.
func (d *differential) try(text string, i int) {
	a, known := d.decide(text, d.policies[i%len(d.policies)])
	if !known || !a.allowed && i%3 > 0 { // what is not allowed only shows how well scripts are read
		return
	}
	d.waiting = append(d.waiting, a)
	if a.allowed && !a.byDefault && d.gen.IntN(25) == 0 && strings.ContainsAny(text, "evnx") {
		d.runReal(a)
	}
}

// confined reports whether a script that nothing allowed leaves alone what is outside, so that it may be
// run to compare what it runs.
func confined(p shell.Program) bool {
	for _, f := range p.Files {
		if f.Path.Dynamic || strings.HasPrefix(f.Path.Text, "/") || f.Path.Tilde {
			return false
		}
	}
	for _, c := range p.Commands {
		if strings.Contains(c.Words[0].Text, "/") || c.Name() == "exec" || c.Name() == "hash" || c.Name() == "kill" {
			return false
		}
	}
	return true
}

// harness runs scripts one after the other in subshells: what is no builtin is not found, and logged.
const harness = `
ROOT=$2
_log() { local r; builtin printf -v r '%s\037' "$@"; r=${r//$'\n'/$'\035'}; builtin printf '\036C%s\037%s' "$_I" "$r" >>"$LOG"; }
command_not_found_handle() { _log "$@"; [[ $1 != no ]]; }
echo() { _log echo "$@"; builtin echo "$@"; }
printf() { _log printf "$@"; builtin printf "$@"; }
test() { _log test "$@"; builtin test "$@"; }
true() { _log true "$@"; }
cat() { if (($#)); then _log cat "$@"; else builtin printf '%s' "$(</dev/stdin)"; fi; } # "$(cat <<'EOF' …)" is a text, no command
false() { _log false "$@"; ! :; }
_files() {
  shopt -s nullglob dotglob
  local f
  for f in "$ROOT"/run/* "$ROOT"/run/d/* "$ROOT"/home/* "$ROOT"/empty/* "$ROOT"/*; do
    case $f in
      "$ROOT"/run/d | "$ROOT"/run | "$ROOT"/home | "$ROOT"/empty | "$ROOT"/stubs | "$ROOT"/log | "$ROOT"/logs | "$ROOT"/scripts | "$ROOT"/out) ;;
      *) builtin printf '\036F%s\037%s' "$_I" "${f#"$ROOT"/}" >>"$LOG"; /bin/rm -rf "$f" ;;
    esac
  done
  shopt -u nullglob dotglob
}
_I=0
while IFS= builtin read -r -d '' _s <&3; do
  LOG=$1/$_I
  builtin printf '\036S%s\037' "$_I" >>"$LOG"
  ( exec 3<&-; ulimit -t 1 -f 256; builtin cd "$ROOT/run"; eval "$_s"
    wait ) </dev/null >"$ROOT/out" 2>&1
  [[ $3 ]] && /bin/sleep "$3"
  _files
  _I=$((_I+1))
done 3<"$ROOT/scripts"
`

func (d *differential) environment(path string) []string {
	return []string{"PATH=" + path, "HOME=" + d.dir + "/home", "LANG=C"}
}

func (d *differential) runAll() {
	for len(d.waiting) > 0 {
		d.runSome()
	}
}

// runSome runs what waits, up to a script that does not end.
func (d *differential) runSome() {
	d.stuck = -1
	strange := d.runBatch(d.waiting, "", true)
	done := d.stuck + 1
	if d.stuck < 0 {
		done = len(d.waiting)
	}
	// What a script leaves running may make a file while a later one runs: each is asked alone.
	for _, i := range strange {
		for _, a := range d.waiting[max(0, i-30) : i+1] {
			if !a.allowed {
				continue
			}
			if d.runBatch([]attempt{a}, "0.1", false); d.strange != "" {
				d.t.Errorf("it made the file %q, which is not among the files, or not allowed (allowed: %v)\n%q\nprinted %q\n%s", d.strange, a.allowed, a.text, a.script, listed(a.program))
			}
		}
	}
	d.waiting = d.waiting[done:]
}

// runBatch runs scripts one after the other. strange are those during which a file appeared that is not
// among theirs.
func (d *differential) runBatch(batch []attempt, pause string, count bool) (strange []int) {
	d.strange = ""
	var scripts bytes.Buffer
	for _, a := range batch {
		scripts.WriteString(a.script)
		scripts.WriteByte(0)
	}
	d.write("scripts", scripts.Bytes())
	ctx, stop := context.WithCancel(d.t.Context())
	defer stop()
	cmd := exec.CommandContext(ctx, d.bash, "--norc", "--noprofile", "-c", harness, "bash", d.dir+"/logs", d.dir, pause)
	cmd.Env, cmd.WaitDelay = d.environment(d.dir+"/empty"), time.Second
	cmd.Dir = d.dir + "/run"
	endAll := ownGroup(cmd)
	watched := make(chan struct{})
	go func() { defer close(watched); d.watch(ctx, stop) }()
	out, err := cmd.CombinedOutput()
	endAll()
	ended := ctx.Err() == nil
	stop()
	<-watched
	if err != nil && ended {
		d.t.Logf("the harness: %v %s", err, out)
	}
	log := d.takeLogs(len(batch))
	for record := range strings.SplitSeq(log, "\x1e") {
		if record == "" {
			continue
		}
		number, rest, _ := strings.Cut(record[1:], "\x1f")
		i, err := strconv.Atoi(number)
		if err != nil || i >= len(batch) {
			d.t.Fatalf("the log is broken: %q", record)
		}
		a := batch[i]
		switch record[0] {
		case 'S':
			if !ended {
				d.stuck = i
			}
			if count {
				d.ran++
			}
			if a.allowed && count {
				d.allowed++
			}
		case 'C':
			d.commands++
			d.checkCommand(a, strings.Split(strings.TrimSuffix(strings.ReplaceAll(rest, "\x1d", "\n"), "\x1f"), "\x1f"))
		case 'F':
			if !a.mayMake(rest) {
				strange, d.strange = append(strange, i), rest
			}
		}
	}
	return strange
}

// watch calls stop when no script has begun for a while: some never end.
func (d *differential) watch(ctx context.Context, stop func()) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	begun, since := 0, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for d.exists(fmt.Sprint("logs/", begun)) {
			begun, since = begun+1, time.Now()
		}
		if time.Since(since) > patience {
			stop()
			return
		}
	}
}

func (d *differential) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(d.dir, name))
	return err == nil
}

// takeLogs reads what the scripts have logged, each in a file of its own, and removes it. The last record of
// a file that has reached its limit is cut, and left out.
func (d *differential) takeLogs(n int) string {
	var all strings.Builder
	for i := range n {
		name := filepath.Join(d.dir, "logs", fmt.Sprint(i))
		text, err := os.ReadFile(name)
		if err != nil {
			break
		}
		if len(text) >= maxLogged {
			text = text[:bytes.LastIndexByte(text, '\x1e')]
		}
		all.Write(text)
		if err := os.Remove(name); err != nil {
			d.t.Fatal(err)
		}
	}
	return all.String()
}

const (
	// patience is longer than the second of processor time that each script has.
	patience = 3 * time.Second
	// maxLogged is ulimit -f of the harness.
	maxLogged = 256 << 10
)

func (d *differential) checkCommand(a attempt, argv []string) {
	name, _, _ := strings.Cut(argv[0], "-")
	if a.allowed && a.byDefault && (name == "evil" || name == "rm" || name == "x") {
		d.t.Errorf("allowed, but it ran the denied %q\n%q\nprinted %q\n%s", argv, a.text, a.script, listed(a.program))
	}
	if a.allowed && !a.byDefault && !mine[name] { // echo-x is what echo:* means too
		d.t.Errorf("allowed, but it ran %q\n%q\nprinted %q", argv, a.text, a.script)
	}
	for _, c := range a.program.Commands {
		if matchWords(c.Words, argv) {
			return
		}
	}
	if a.allowed && !a.byDefault {
		d.t.Errorf("allowed, but it ran %q, which is not among the commands\n%q\nprinted %q\n%s", argv, a.text, a.script, listed(a.program))
	}
	if d.strict && !a.allowed {
		d.t.Errorf("it is said to be known, but it ran %q, which is not among the commands\n%q\nprinted %q\n%s", argv, a.text, a.script, listed(a.program))
	}
	if d.differ++; d.differ <= 40 && !d.strict {
		d.t.Logf("not allowed, and read differently: it ran %q\n%q\n%s", argv, a.text, listed(a.program))
	}
}

// mayMake reports whether the script may have made the file: it is among its files, and an allowed
// script may write only where its policy says.
func (a attempt) mayMake(name string) bool {
	if a.allowed && !a.byDefault && !strings.HasPrefix(name, "run/ok") {
		return false
	}
	for _, f := range a.program.Files {
		if f.Write && (f.Path.Dynamic || filepath.Base(f.Path.Text) == filepath.Base(name)) {
			return true
		}
	}
	return false
}

// runReal runs an allowed script by itself, with stubs for programs and with the real wrappers.
func (d *differential) runReal(a attempt) {
	d.write("log", nil)
	ctx, stop := context.WithTimeout(d.t.Context(), 20*time.Second)
	defer stop()
	cmd := exec.CommandContext(ctx, d.bash, "--norc", "--noprofile", "-c", a.script)
	cmd.Env, cmd.Dir, cmd.WaitDelay = d.environment(d.dir+"/stubs"), d.dir+"/run", time.Second
	endAll := ownGroup(cmd)
	_ = cmd.Run() // scripts fail
	endAll()
	log, err := os.ReadFile(d.dir + "/log")
	if err != nil {
		d.t.Fatal(err)
	}
	d.realRan++
	for record := range strings.SplitSeq(string(log), "\x1e") {
		if record == "" {
			continue
		}
		d.realCommands++
		argv := strings.Split(record[1:], "\x1f")
		if name, _, _ := strings.Cut(argv[0], "-"); !mine[name] {
			d.t.Errorf("allowed, but with real wrappers it ran %q\n%q\nprinted %q", argv, a.text, a.script)
		}
	}
}

// ownGroup lets a command and all that it leaves running end together, also when its time is up.
func ownGroup(cmd *exec.Cmd) (endAll func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endAll = func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // none may be left
		}
	}
	cmd.Cancel = func() error { endAll(); return nil }
	return endAll
}

func (d *differential) write(name string, data []byte) {
	if err := os.WriteFile(filepath.Join(d.dir, name), data, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func listed(p shell.Program) string {
	var b strings.Builder
	for _, c := range p.Commands {
		fmt.Fprintf(&b, "  %+v\n", c.Words)
	}
	for _, f := range p.Files {
		fmt.Fprintf(&b, "  file %+v\n", f)
	}
	fmt.Fprintf(&b, "  %+v", p.Problems)
	return b.String()
}

// matchWords reports whether the arguments can be what the words became.
func matchWords(words []shell.Word, argv []string) bool {
	if len(words) == 0 {
		return len(argv) == 0
	}
	w := words[0]
	switch {
	case w.Dynamic && w.Split:
		for n := 0; n <= len(argv); n++ {
			if matchWords(words[1:], argv[n:]) {
				return true
			}
		}
		return false
	case len(argv) == 0:
		return false
	case w.Dynamic:
		// A pattern of file names may become several.
		if (w.Tilde || strings.HasPrefix(argv[0], w.Begin)) && (matchWords(words[1:], argv[1:]) || matchWords(words, argv[1:])) {
			return true
		}
		return false
	}
	return (w.Text == argv[0] || w.Tilde) && matchWords(words[1:], argv[1:])
}
