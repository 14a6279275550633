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
	"symbio/agent/tool/builtin"
	"symbio/internal/agent/node/notify"
	"symbio/internal/security/audit"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/sandbox"
	"symbio/skills"
)

const (
	// warnDays is the remaining life of a certificate, in whole days, up to which it is a warning.
	// Certificates live 7 days and are renewed after half of that.
	warnDays = 2
	// warnAuthority is the same for this user's own authority. A person has to renew it, so the
	// warning comes a month before the end.
	warnAuthority = 30 * 24 * time.Hour
)

// configuration checks that the configuration can be read. If it cannot, the other checks run with
// the defaults, and this finding says so.
func configuration(_ context.Context, w *World) []Finding {
	if w.BadConfig != nil {
		return []Finding{fail("correct the line that it names; everything else here was checked with the defaults", "%v", w.BadConfig)}
	}
	return []Finding{ok("it can be read, and nothing in it is unknown")}
}

// runningNodes checks that the running nodes answer on their control sockets. That no node runs is
// a warning only if the user asked about a node by name.
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

// certificates checks the certificates of the running nodes, of their peers and
// of the stopped node of this machine. Certificates are renewed at half of
// their life, so one that ends soon means that renewal fails.
func certificates(_ context.Context, w *World) (out []Finding) {
	for _, n := range w.Nodes {
		for _, p := range n.Peers {
			// The certificate of a peer is known only while it is connected.
			if p.GetState() != "self" && p.GetState() != "connected" {
				continue
			}
			// For the node itself, Why is the reason for which other nodes refuse it.
			if p.GetState() == "self" && p.GetWhy() != "" {
				why, fix := splitAdvice(p.GetWhy(), "do as it says")
				out = append(out, fail(fix, "other nodes refuse node %s: %s", n.Name, why))
			}
			whose := "node " + n.Name + "'s certificate"
			if p.GetState() != "self" {
				whose = "the certificate of " + called(p) + ", connected to node " + n.Name + ","
			}
			switch {
			case p.GetCertDays() <= warnDays:
				out = append(out, warn("in a cluster, start a node that holds its authority, or mend the network to it: symbio cluster status; else restart that node",
					"%s %s, and was to be renewed before", whose, Ends(int(p.GetCertDays()))))
			// Peers with a healthy certificate get no finding: a large cluster would fill the
			// output.
			case p.GetState() == "self":
				out = append(out, ok("%s %s", whose, Ends(int(p.GetCertDays()))))
			}
		}
	}
	// Member reads the stored certificate, so this also covers a node that does not run.
	if err := w.Member(); err != nil {
		why, fix := splitAdvice(err.Error(), "do as it says")
		out = append(out, fail(fix, "%s", why))
	}
	_, ends, err := w.Authority()
	return append(out, ownAuthority(ends, err, w.Now()))
}

// Ends returns a phrase about a certificate that is valid for so many days; a
// negative number has ended.
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

// splitAdvice splits a message at its first "; " into the reason and what to
// do. otherwise is the advice of a message without one.
func splitAdvice(words, otherwise string) (why, fix string) {
	why, fix, _ = strings.Cut(words, "; ")
	return why, cmp.Or(fix, otherwise)
}

// ownAuthority checks this user's own authority, which signs the certificates of
// nodes outside of clusters. It is not renewed by itself.
func ownAuthority(ends time.Time, err error, now time.Time) Finding {
	const again = "move that file away: a new one is made at the next start; then restart this user's nodes"
	switch {
	// A user without an authority is in order: the first node makes it at its start.
	case errors.Is(err, fs.ErrNotExist):
		return ok("this user has no authority of their own on this machine yet; the first node makes it")
	case err != nil:
		return fail("do as it says, or "+again, "this user's own authority cannot be used: %v", err)
	case ends.Sub(now) < warnAuthority:
		return warn(again, "this user's own authority ends on %s", ends.Format(time.DateOnly))
	}
	return ok("this user's own authority is good until %s", ends.Format(time.DateOnly))
}

// clock compares the clock with two times that are certainly past: the commit that this program was
// built from and the creation of this user's authority. A clock that is behind them makes
// certificates invalid. It cannot detect a clock that is ahead, and it asks no time server.
func clock(_ context.Context, w *World) []Finding {
	const fix = "set the clock and keep it synchronised: timedatectl set-ntp true"
	now := w.Now()
	// The error is ignored here: without an authority begins is zero, and certificates reports the
	// error.
	if begins, _, _ := w.Authority(); now.Before(begins) {
		return []Finding{fail(fix, "the clock says %s, and this user's own authority was made at %s: its certificates are not good yet",
			now.Format(time.RFC3339), begins.Format(time.RFC3339))}
	}
	// One day is the tolerance for the clock of the machine that made the commit. An unknown build
	// time is zero and never fails.
	if now.Before(w.Built.Add(-24 * time.Hour)) {
		return []Finding{fail(fix, "the clock says %s, and this program was made at %s", now.Format(time.RFC3339), w.Built.Format(time.RFC3339))}
	}
	return []Finding{ok("the clock says %s, which is after everything that is known to be past", now.Format(time.RFC3339))}
}

// model checks that the configured model can be reached. It asks the server and sends no prompt. A
// missing model is only a warning, because nodes that offer commands need none.
func model(ctx context.Context, w *World) []Finding {
	spec := string(w.Options.Settings.Model)
	name, err := w.Reach(ctx, spec)
	if err == nil {
		return []Finding{ok("%s is %s, and its server answers", spec, name)}
	}
	// ErrNone has two lines: the reason and what to do. Other errors may have only the first.
	why, fix, _ := strings.Cut(err.Error(), "\n")
	switch {
	case errors.Is(err, provider.ErrElsewhere):
		return []Finding{ok("%s is asked of another node, when it is needed; `symbio agents models` lists what those offer", spec)}
	case errors.Is(err, provider.ErrUnlisted):
		return []Finding{warn("check the name, or load that model on the server", "%s", why)}
	case errors.Is(err, provider.ErrNone):
		return []Finding{warn(fix, "%s", why)}
	case fix == "":
		fix = "start that server, or name another model with model: in the configuration; check OPENAI_BASE_URL and OPENAI_API_KEY, or ANTHROPIC_API_KEY"
	}
	return []Finding{fail(fix, "%s cannot be used: %s", spec, why)}
}

// workspace checks that agents can read the workspace and the configured directories. It opens each
// as the file tools do, so it also reports what they refuse.
func workspace(_ context.Context, w *World) (out []Finding) {
	const fix = "name a directory that this user may read: symbio up --workspace DIR, or workspace and directories in the configuration"
	for _, dir := range append([]string{w.Options.Workspace()}, w.Options.Settings.Directories...) {
		files, err := builtin.New(builtin.Config{Dir: dir})
		if err == nil {
			if _, err = os.ReadDir(files.Dir()); err == nil {
				out = append(out, ok("agents can read %s", dir))
			}
			// files is nil if New failed, so it is closed only here.
			err = errors.Join(err, files.Close())
		}
		if err != nil {
			out = append(out, fail(fix, "agents cannot work in %s: %v", dir, err))
		}
	}
	return out
}

// commandSandbox checks which sandbox the machine has, whether the operating system enforces the
// denied files, and which capabilities it cannot run. It can return several findings, one for each
// question.
func commandSandbox(ctx context.Context, w *World) []Finding {
	out := []Finding{w.level(ctx)}
	if err := w.Looks(ctx); err != nil {
		out = append(out, warn("get the level native or bwrap of the sandbox", "commands that only look are asked about: %v", err))
	}
	if why, mend := w.Options.Settings.Unheld(); why != "" {
		out = append(out, warn(mend, "%s", why))
	}
	// Invalid rules are skipped here: the check of the configuration reports them.
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

// level reports the level of the sandbox. It is a warning if a better level is possible on this
// machine. A gap that cannot be closed is only mentioned.
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

// state checks the owner and modes of the files that nodes keep, and that there is room for the
// audit log: a node that cannot record a decision denies everything. A missing directory is in
// order, because the first node makes it.
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

// notifyTargets reports where messages are sent, and which of them failed the last time.
func notifyTargets(dir string) (out []Finding) {
	targets, failures := notify.Books(dir)
	all, err := targets.All()
	if err != nil {
		out = append(out, fail("remove that file, and add the target again", "%v", err))
	}
	for _, t := range all {
		if failed, err := failures.Find(t.Name); err == nil {
			out = append(out, warn("symbio notify test "+t.Name, "the last message to %s was not sent: %s", t.Name, failed.Why))
			continue
		}
		out = append(out, ok("messages are sent to %s (%s)", t.Name, t.Place()))
	}
	return out
}

// writable writes a file of audit.MaxRecord bytes, the size of the largest record, into a directory
// and removes it. The mode bits would not reveal a full or read-only disk.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, audit.MaxRecord))
	// Sync reports a full disk that the page cache would hide. All four run in this order, also
	// after an error.
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}

// leftOutSkills reports the invalid skills. It takes the replies of the running nodes, and scans the
// disk if there are none. Several nodes report the same files, so each line appears once.
func leftOutSkills(ctx context.Context, w *World) (out []Finding) {
	var left []Finding
	var notes []string
	answered := false
	add := func(r *symbiov1.SkillsReply) {
		answered = answered || r != nil
		for _, p := range r.GetErrors() {
			left = append(left, warn("see all that is wrong with it: symbio skills validate "+filepath.Dir(p.GetPath()), "left out: %s: %s", p.GetPath(), p.GetMessage()))
		}
		for _, p := range r.GetNotes() {
			notes = append(notes, p.GetPath()+": "+p.GetMessage())
		}
	}
	for _, n := range w.Nodes {
		add(n.Skills)
	}
	if !answered {
		catalog, err := skills.Scan(ctx, w.Options.Skills().Registry())
		if err != nil {
			return []Finding{warn("run it again", "looking for skills: %v", err)}
		}
		add(w.Options.Skills().Reply(catalog, nil))
	}
	slices.SortStableFunc(left, func(a, b Finding) int { return cmp.Compare(a.Detail, b.Detail) })
	out = slices.Compact(left)
	slices.Sort(notes)
	for _, n := range slices.Compact(notes) {
		out = append(out, warn("see all of them: symbio skills list", "%s", n))
	}
	if len(out) == 0 {
		out = append(out, ok("no skill is left out"))
	}
	return out
}
