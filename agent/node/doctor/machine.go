package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"symbio/agent/llm/provider"
	"symbio/agent/node"
	"symbio/agent/tool/builtin"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/audit"
	"symbio/security/sandbox"
	"symbio/skills"
)

const (
	// soonDays is when a certificate's end is worth a word: it lives 7 days and is renewed at half of that.
	soonDays = 2
	// soonAuthority is the same for an authority, which is not renewed by itself.
	soonAuthority = 30 * 24 * time.Hour
)

func configuration(_ context.Context, w *World) []Finding {
	if w.BadConfig != nil {
		return []Finding{fail("correct the line that it names; everything else here was checked with the defaults", "%v", w.BadConfig)}
	}
	return []Finding{ok("it can be read, and nothing in it is unknown")}
}

func runningNodes(_ context.Context, w *World) (out []Finding) {
	for _, n := range w.Nodes {
		if n.Err != nil {
			out = append(out, fail("restart it: symbio up --name "+n.Name, "node %s has a control socket and does not answer: %v", n.Name, n.Err))
			continue
		}
		out = append(out, ok("node %s is running and listens on %s", n.Name, n.Status.GetListen()))
	}
	switch {
	case len(out) > 0:
		return out
	case w.Wanted != "":
		return []Finding{warn("symbio up --name "+w.Wanted, "node %s is not running", w.Wanted)}
	}
	return []Finding{ok("no node is running on this machine")}
}

func certificates(_ context.Context, w *World) (out []Finding) {
	for _, n := range w.Nodes {
		for _, p := range n.Peers {
			if p.GetState() != "self" && p.GetState() != "connected" {
				continue
			}
			if p.GetState() == "self" && p.GetWhy() != "" {
				why, fix := remedy(p.GetWhy(), "do as it says")
				out = append(out, fail(fix, "other nodes refuse node %s: %s", n.Name, why))
			}
			whose := "node " + n.Name + "'s certificate"
			if p.GetState() != "self" {
				whose = "the certificate of " + called(p) + ", connected to node " + n.Name + ","
			}
			switch {
			case p.GetCertDays() <= soonDays:
				out = append(out, warn("in a cluster, start a node that holds its authority, or mend the network to it: symbio cluster status; else restart that node",
					"%s %s, and was to be renewed before", whose, Ends(int(p.GetCertDays()))))
			case p.GetState() == "self":
				out = append(out, ok("%s %s", whose, Ends(int(p.GetCertDays()))))
			}
		}
	}
	if err := w.Member(); err != nil {
		why, fix := remedy(err.Error(), "do as it says")
		out = append(out, fail(fix, "%s", why))
	}
	return append(out, w.authority())
}

// Ends says when a certificate ends that is good for so many days; below 0, it has ended.
func Ends(days int) string {
	switch {
	case days < 0:
		return "has ended"
	case days == 0:
		return "ends in less than a day"
	case days == 1:
		return "ends in 1 day"
	}
	return fmt.Sprintf("ends in %d days", days)
}

// remedy cuts from the words of an error what to do about it.
func remedy(words, otherwise string) (why, fix string) {
	why, fix, _ = strings.Cut(words, "; ")
	return why, cmp.Or(fix, otherwise)
}

func (w *World) authority() Finding {
	const again = "move that file away: a new one is made at the next start; then restart this user's nodes"
	_, ends, err := w.Authority()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ok("this user has no authority of their own on this machine yet; the first node makes it")
	case err != nil:
		return fail("do as it says, or "+again, "this user's own authority cannot be used: %v", err)
	case ends.Sub(w.Now()) < soonAuthority:
		return warn(again, "this user's own authority ends on %s", ends.Format(time.DateOnly))
	}
	return ok("this user's own authority is good until %s", ends.Format(time.DateOnly))
}

// clock compares the clock with the past that is certain: when this program and this user's authority were made.
func clock(_ context.Context, w *World) []Finding {
	const fix = "set the clock, and let it be kept right: timedatectl set-ntp true"
	now := w.Now()
	if begins, _, _ := w.Authority(); now.Before(begins) {
		return []Finding{fail(fix, "the clock says %s, and this user's own authority was made at %s: its certificates are not good yet",
			now.Format(time.RFC3339), begins.Format(time.RFC3339))}
	}
	if now.Before(w.Built.Add(-24 * time.Hour)) { // the commit's clock was somebody else's
		return []Finding{fail(fix, "the clock says %s, and this program was made at %s", now.Format(time.RFC3339), w.Built.Format(time.RFC3339))}
	}
	return []Finding{ok("the clock says %s, which is after everything that is known to be past", now.Format(time.RFC3339))}
}

func model(ctx context.Context, w *World) []Finding {
	spec := string(w.Options.Settings.Model)
	name, err := w.Reach(ctx, spec)
	if err == nil {
		return []Finding{ok("%s is %s, and its server answers", spec, name)}
	}
	why, fix, _ := strings.Cut(err.Error(), "\n")
	switch {
	case errors.Is(err, provider.ErrElsewhere):
		return []Finding{ok("%s is asked of another node, when it is needed; `symbio models` lists what those offer", spec)}
	case errors.Is(err, provider.ErrUnlisted):
		return []Finding{warn("check the name, or load that model on the server", "%s", why)}
	case errors.Is(err, provider.ErrNone):
		return []Finding{warn(fix, "%s", why)} // a node does without; `symbio demo` too
	case fix == "":
		fix = "start that server, or name another model with model: in the configuration; check OPENAI_BASE_URL and OPENAI_API_KEY, or ANTHROPIC_API_KEY"
	}
	return []Finding{fail(fix, "%s cannot be used: %s", spec, why)}
}

func workspace(_ context.Context, w *World) (out []Finding) {
	const fix = "name a directory that this user may read: symbio up --workspace DIR, or workspace and directories in the configuration"
	for _, dir := range append([]string{w.Options.Workspace()}, w.Options.Settings.Directories...) {
		files, err := builtin.New(builtin.Config{Dir: dir})
		if err == nil {
			if _, err = os.ReadDir(files.Dir()); err == nil {
				out = append(out, ok("agents can read %s", dir))
			}
			err = errors.Join(err, files.Close())
		}
		if err != nil {
			out = append(out, fail(fix, "agents cannot work in %s: %v", dir, err))
		}
	}
	return out
}

func commandSandbox(ctx context.Context, w *World) []Finding {
	out := []Finding{w.level(ctx)}
	if w.Options.Settings.Sandbox.IsOff() {
		out = append(out, warn("if that is not meant, take sandbox: {preset: off} out of the configuration", "the configuration switches the sandbox off: commands run with all that this user may do"))
	}
	if rules, err := w.Options.Settings.Permissions.Policy(); err == nil {
		if how, bySystem := w.Kept(ctx, rules.Denied(w.Options.Workspace())); !bySystem {
			out = append(out, warn("get a better level of the sandbox, or deny fewer files", "%s", how))
		} else if how != "" {
			out = append(out, ok("%s", how))
		}
	}
	refusing, err := w.Refusing(ctx)
	if err != nil {
		return append(out, fail("correct the configuration", "what capabilities may do cannot be found out: %v", err))
	}
	for _, r := range refusing {
		out = append(out, fail(r.Mend, "the calls of the capability %s are refused: %s", r.Capability, r.Why))
	}
	return out
}

func (w *World) level(ctx context.Context) Finding {
	s := w.Sandbox(ctx)
	uncovered := strings.Join(s.Missing, "; ")
	switch {
	case s.Level == sandbox.None:
		return warn(s.Mend, "there is no sandbox on this machine: %s", uncovered)
	case s.Mend != "":
		return warn(s.Mend, "the sandbox has the level %v; not covered: %s", s.Level, uncovered)
	case uncovered != "":
		return ok("the sandbox has the level %v; not covered: %s", s.Level, uncovered)
	}
	return ok("the sandbox has the level %v, which covers all that a policy can ask for", s.Level)
}

func state(_ context.Context, w *World) (out []Finding) {
	dir := string(w.Options.State)
	problems, err := w.Options.State.Problems()
	for _, p := range problems {
		out = append(out, fail(p.Fix, "%s: %s", p.Path, p.Why))
	}
	if err != nil {
		out = append(out, fail("give "+dir+" to the user who runs the node, mode 700", "%v", err))
	}
	if err := writable(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		out = append(out, fail("make room on its disk, or make it writable", "nothing can be recorded in %s, so that nodes allow nothing: %v", dir, err))
	}
	if len(out) > 0 {
		return out
	}
	return []Finding{ok("%s is for this user only, and can be written", dir)}
}

// writable tries to write a file in a directory, and removes it.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, audit.MaxRecord))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}

// leftOutSkills asks the running nodes, and the disk when there are none.
func leftOutSkills(ctx context.Context, w *World) (out []Finding) {
	var left, notes []string
	add := func(r *symbiov1.SkillsReply) {
		for _, p := range r.GetErrors() {
			left = append(left, p.GetPath()+": "+p.GetMessage())
		}
		for _, p := range r.GetNotes() {
			notes = append(notes, p.GetPath()+": "+p.GetMessage())
		}
	}
	for _, n := range w.Nodes {
		add(n.Skills)
	}
	if len(w.Nodes) == 0 {
		catalog, err := skills.Scan(ctx, w.Options.SkillsConfig())
		if err != nil {
			return []Finding{warn("run it again", "looking for skills: %v", err)}
		}
		add(node.SkillsReply(catalog, nil))
	}
	slices.Sort(left)
	for _, l := range slices.Compact(left) {
		path, _, _ := strings.Cut(l, ": ")
		out = append(out, warn("see all that is wrong with it: symbio skills validate "+filepath.Dir(path), "left out: %s", l))
	}
	slices.Sort(notes)
	for _, n := range slices.Compact(notes) {
		out = append(out, warn("see all of them: symbio skills list", "%s", n))
	}
	if len(out) == 0 {
		out = append(out, ok("no skill is left out"))
	}
	return out
}
