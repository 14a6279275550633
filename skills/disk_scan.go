package skills

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/internal/skills/walk"
	"symbio/skills/format"
)

// batch is how many skills a worker takes at a time: enough that the channel costs little, few
// enough that the scan does not wait long for the last worker.
const batch = 32

// job is one SKILL.md to read. The goroutine of run fills in place and scope, a worker known.
type job struct {
	// place is where the walk found the SKILL.md.
	place walk.Place
	scope Scope
	// known is nil until a worker has read the file, and stays nil if the scan is cancelled.
	known *knownSkill
}

// diskScan is one scan in progress. The goroutine of run owns all fields except reads and the jobs
// that workers have.
type diskScan struct {
	cfg Config
	// last is the scan before; nil = there was none.
	last *scanResult
	// at is when the scan began. A file that changes later is read again by the next scan.
	at time.Time
	// jobs are all jobs in the order of the walk.
	jobs []*job
	// next is the current batch, which no worker has yet.
	next []*job
	// workers read the batches.
	workers errgroup.Group

	// reads counts the files that workers have read. It is atomic because all of them write it.
	reads atomic.Int64

	// bundled are the program's own skills. watched, notes and limited collect the results of the
	// walks.
	bundled []*knownSkill
	watched []walk.WatchedPath
	notes   []Problem
	limited bool
}

// survey scans the disk. One goroutine walks the directories while workers read the files that it
// finds. The result is in the order of the walk. All goroutines have ended when it returns. The
// error is the cause of ctx; a scan does not fail because of a file. last saves the reading of
// files that have not changed.
func (c Config) survey(ctx context.Context, last *scanResult) (*scanResult, error) {
	s := diskScan{cfg: c, last: last, at: time.Now()}
	s.workers.SetLimit(walk.Workers())
	for _, root := range c.orderedRoots() {
		if ctx.Err() != nil {
			break
		}
		s.root(ctx, root)
	}
	s.flush(ctx)
	_ = s.workers.Wait() // they return no error
	s.bundled = readAllBundled(c)
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("scan for skills: %w", err)
	}
	return s.finish(), nil
}

// root walks one root and queues a job for each skill.
func (s *diskScan) root(ctx context.Context, root Root) {
	limits := walk.Config{
		Depth: s.cfg.MaxDepth, Dirs: s.cfg.MaxDirs, Entries: s.cfg.MaxEntries, Skills: s.cfg.MaxSkills,
		Flat: root.Flat, Project: !root.Scope.Grants(),
	}
	if root.Scope == ScopePeer {
		// A person trusted one skill, not the skills that may lie below it.
		limits.Depth, limits.Flat = 1, true
	}
	w, err := walk.New(root.Path, limits)
	if err != nil {
		m, _ := walk.MarkOf(root.Path)
		s.watched = append(s.watched, walk.WatchedPath{Path: root.Path, Mark: m})
		// The standard roots need not exist; one that is configured should.
		if _, missing := os.Lstat(root.Path); missing == nil || root.Scope == ScopeConfig {
			s.notes = append(s.notes, Problem{root.Path, []format.Diagnostic{{Code: format.CodeNoDirectory, Severity: format.Warning, Message: err.Error()}}})
		}
		return
	}
	for p := range w.All {
		if ctx.Err() != nil {
			return
		}
		s.add(ctx, &job{place: p, scope: cmp.Or(root.Scope, ScopeProject)})
	}
	s.watched = append(s.watched, w.Watched...)
	for _, n := range w.Notes {
		s.notes = append(s.notes, Problem{n.Path, []format.Diagnostic{n.Diagnostic}})
	}
	s.limited = s.limited || w.Limited
}

// add queues a job, and starts the batch if it is full. It blocks while all workers are busy.
func (s *diskScan) add(ctx context.Context, j *job) {
	s.jobs = append(s.jobs, j)
	if s.next = append(s.next, j); len(s.next) == batch {
		s.flush(ctx)
	}
}

// flush starts to read the current batch. It reads nothing after the end of ctx.
func (s *diskScan) flush(ctx context.Context) {
	jobs := s.next
	s.next = nil
	s.workers.Go(func() error {
		for _, j := range jobs {
			if ctx.Err() == nil {
				s.read(j)
			}
		}
		return nil
	})
}

// read sets j.known, from the last scan if the file is unchanged, else from the disk. Workers call
// it concurrently, each for its own jobs.
func (s *diskScan) read(j *job) {
	p := j.place
	var before *knownSkill
	if s.last != nil {
		before = s.last.known[p.Path]
	}
	// Settled: a file that changed within the same tick of the clock as the last scan may have
	// changed again since.
	if before != nil && before.reading.mark.Settled(s.last.at) && before.reading.skill.ID != "" {
		if m, err := walk.MarkOf(walk.Join(p.Path, walk.FileName)); err == nil && m == before.reading.mark && before.canonical == p.Canonical {
			j.known = before
			if before.reading.skill.resources() != p.Has || before.reading.skill.Scope != j.scope {
				// The last scan's value is shared with its catalog, so a copy is changed.
				again := *before
				again.reading.skill.putResources(p.Has)
				again.reading.skill.Scope = j.scope
				j.known = &again
			}
			return
		}
	}
	s.reads.Add(1)
	r := readPlace(p, s.cfg.Policy, false)
	if kindOf(r.diags) == ErrInvalid && readPlace(p, format.Policy{Level: format.Lenient}, false).err() == nil {
		r.diags = append(r.diags, format.Diagnostic{Code: format.CodeLevel, Severity: format.Error, Field: "level",
			Message: fmt.Sprintf("to have it all the same, write skills: {levels: {%q: lenient}} in symbio.yaml", p.Path)})
	}
	r.skill.Scope = j.scope
	j.known = &knownSkill{reading: r, canonical: p.Canonical}
	if before != nil && editBroke(r.diags) {
		j.known.good = before.lastGood()
	}
}

// lastGood returns the version to keep when an edit breaks the skill, nil if there is none.
func (k *knownSkill) lastGood() *Skill {
	if k.good != nil || format.Failed(k.reading.diags) {
		return k.good
	}
	good := k.reading.skill
	good.Stale = true
	return &good
}

// editBroke reports whether the errors are of the kind that people make when they edit a file. A
// file that was deleted, or replaced by something that is no file, has no last good version.
func editBroke(ds []format.Diagnostic) bool {
	switch kindOf(ds) {
	case ErrFormat, ErrYAML, ErrInvalid:
		return true
	}
	return false
}

// finish builds the result from all jobs and the bundled skills.
func (s *diskScan) finish() *scanResult {
	g := catalogBuilder{seen: make(map[string]bool, len(s.jobs))}
	out := &scanResult{known: make(map[string]*knownSkill, len(s.jobs)), watched: s.watched, at: s.at, reads: s.reads.Load()}
	for _, j := range s.jobs {
		out.known[j.place.Path] = j.known
		out.watched = append(out.watched, walk.WatchedPath{Path: j.known.reading.skill.Path, Mark: j.known.reading.mark})
		g.add(j.known)
	}
	for _, k := range s.bundled {
		g.add(k)
	}
	g.catalog.Notes, g.catalog.Truncated = s.notes, s.limited
	out.catalog = s.cfg.Choices.Apply(g.finish())
	return out
}

// readAllBundled reads the skills inside the program.
func readAllBundled(cfg Config) (bundled []*knownSkill) {
	if cfg.Bundled == nil {
		return nil
	}
	found, err := fs.Glob(cfg.Bundled, "*/"+walk.FileName)
	if err != nil {
		// Glob fails only for a bad pattern.
		return nil
	}
	for _, file := range found {
		dir := path.Dir(file)
		// Sub fails only for a bad path, and Glob returns none.
		if files, err := fs.Sub(cfg.Bundled, dir); err == nil {
			bundled = append(bundled, &knownSkill{reading: readFiles(files, bundledPrefix+dir, dir, cfg.Policy, false)})
		}
	}
	return bundled
}

// unchanged reports whether all files and directories that the scan saw are as they were. A path
// that changed shortly before the scan counts as changed, because a second change in the same tick
// of the clock leaves no trace. It stats every path, in several goroutines, and stops at the first
// difference. If ctx ends, it returns false.
func (v *scanResult) unchanged(ctx context.Context) bool {
	var changed atomic.Bool
	var workers errgroup.Group
	workers.SetLimit(walk.Workers())
	for some := range slices.Chunk(v.watched, 256) {
		if changed.Load() || ctx.Err() != nil {
			break
		}
		workers.Go(func() error {
			for _, w := range some {
				if m, _ := walk.MarkOf(w.Path); m != w.Mark || !m.Settled(v.at) {
					changed.Store(true)
					break
				}
			}
			return nil
		})
	}
	_ = workers.Wait() // they return no error
	return !changed.Load() && ctx.Err() == nil
}
