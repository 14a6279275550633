package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"symbio/agent/llm/provider"
	"symbio/agent/tool/builtin"
	"symbio/cmd/symbio/internal/node"
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
		out = append(out, ok("node %s is running and listens on %s", n.Name, n.Listen))
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
			if p.State != "self" && p.State != "connected" {
				continue
			}
			whose := "node " + n.Name + "'s certificate"
			if p.State != "self" {
				whose = "the certificate of " + p.called() + ", connected to node " + n.Name + ","
			}
			switch {
			case p.CertDays <= soonDays:
				out = append(out, warn("restart that node, and check its clock; in a cluster, check that the node that signs certificates is running",
					"%s is good for %d more days, and was to be renewed before", whose, p.CertDays))
			case p.State == "self":
				out = append(out, ok("%s is good for %d more days", whose, p.CertDays))
			}
		}
	}
	return append(out, w.authority())
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
	spec := string(w.Options.Config.Model)
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
	for _, dir := range append([]string{w.Options.Workspace()}, w.Options.Config.Directories...) {
		files, err := builtin.Open(dir)
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
	if w.Options.Config.Sandbox.Off() {
		out = append(out, warn("if that is not meant, take sandbox: {preset: off} out of the configuration", "the configuration switches the sandbox off: commands run with all that this user may do"))
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
	dir := w.Options.State.Dir
	problems, err := w.Options.State.Problems()
	for _, p := range problems {
		out = append(out, fail(p.Fix, "%s: %s", p.Path, p.Why))
	}
	if err != nil {
		out = append(out, fail("give "+dir+" to the user who runs the node, mode 700", "%v", err))
	}
	if len(out) > 0 {
		return out
	}
	return []Finding{ok("%s is for this user only", dir)}
}

// leftOutSkills asks the running nodes, and the disk when there are none.
func leftOutSkills(ctx context.Context, w *World) (out []Finding) {
	left := []string{}
	for _, n := range w.Nodes {
		left = append(left, n.Skills...)
	}
	if len(w.Nodes) == 0 {
		catalog, err := skills.Scan(ctx, node.SkillsConfig(w.Options))
		if err != nil {
			return []Finding{warn("run it again", "looking for skills: %v", err)}
		}
		for _, p := range catalog.Errors {
			left = append(left, p.Path+": "+p.Message())
		}
	}
	told := map[string]bool{}
	for _, l := range left {
		if !told[l] {
			told[l] = true
			path, _, _ := strings.Cut(l, ": ")
			out = append(out, warn("see all that is wrong with it: symbio skills validate "+filepath.Dir(path), "left out: %s", l))
		}
	}
	if len(out) == 0 {
		out = append(out, ok("no skill is left out"))
	}
	return out
}
