package skills

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/skills/walk"
	"symbio/skills/format"
)

// Report is the result of validating one SKILL.md.
type Report struct {
	Path string `json:"path"`
	// Name is the name in the front matter; "" if it could not be read.
	Name string `json:"name"`
	// OK reports that no diagnostic is an error.
	OK          bool                `json:"ok"`
	Diagnostics []format.Diagnostic `json:"diagnostics"`
}

// ValidateTree reads every SKILL.md in dir and below it completely, and reports on each once, in
// the order of the walk: by name, a directory's own file before those below it. Unlike a scan it
// has no limits and leaves no directory out. dir may also be the path of a SKILL.md.
//
// It follows links to directories one step, after the walk. It reports on the target under the
// link's name if the target has a SKILL.md, lies outside dir, and is not above dir. It also reports
// on a file named skill.md, because no scan finds that. A directory that cannot be read, and a dir
// without any file to report on, get a report that says so.
//
// The error comes from ctx, or is the first one of report. The memory in use holds the links and
// of the directories above the present one. It blocks on the disk, for a time in proportion to the
// tree.
func ValidateTree(ctx context.Context, dir string, policy format.Policy, report func(Report) error) error {
	if base := filepath.Base(dir); base == walk.FileName {
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			return report(reportOn(readAt(filepath.Dir(dir), policy)))
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find %s: %w", dir, err)
	}
	canonical, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return report(reportOn(readAt(abs, policy)))
	}
	v := validation{ctx: ctx, policy: policy, root: canonical, report: report, linked: make(map[string]bool)}
	if err := v.dir(walk.Place{Path: abs, Canonical: canonical}); err != nil {
		return err
	}
	if err := v.follow(); err != nil {
		return err
	}
	if v.reports == 0 {
		return report(reportOn(readAt(abs, policy)))
	}
	return nil
}

// validation is one run of ValidateTree.
type validation struct {
	ctx    context.Context
	policy format.Policy
	// root is dir without links.
	root   string
	report func(Report) error
	// links are the links to follow after the walk, as found.
	links []string
	// linked are the directories, without links, that links led to.
	linked map[string]bool
	// reports is the number of reports that were made.
	reports int
}

// emit passes a report on and counts it.
func (v *validation) emit(r Report) error {
	v.reports++
	return v.report(r)
}

// dir reports on one directory and on those below it, recursively. It collects links for follow.
func (v *validation) dir(p walk.Place) error {
	if err := v.ctx.Err(); err != nil {
		return fmt.Errorf("validate %s: %w", p.Path, err)
	}
	entries, _, _, err := walk.Entries(p.Path, -1)
	if err != nil {
		r := loadResult{skill: Skill{Path: p.Path, Dir: p.Path}}
		r.fail(format.CodeFileRead, "the directory cannot be read: %v; name a skill's directory, which has a SKILL.md", walk.Reason(err))
		return v.emit(reportOn(r))
	}
	p.SetEntries(entries)
	if err := v.files(p, entries); err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.Kind.IsDir():
			if err := v.dir(walk.Place{Path: walk.Join(p.Path, e.Name), Canonical: walk.Join(p.Canonical, e.Name)}); err != nil {
				return err
			}
		case e.Kind&fs.ModeSymlink != 0 && !strings.EqualFold(e.Name, walk.FileName):
			v.links = append(v.links, walk.Join(p.Path, e.Name))
		}
	}
	return nil
}

// files reports on the SKILL.md of a directory, and on files with that name in another case.
func (v *validation) files(p walk.Place, entries []walk.Entry) error {
	for _, e := range entries {
		switch {
		case e.Name == walk.FileName:
			if err := v.emit(reportOn(readPlace(p, v.policy, true))); err != nil {
				return err
			}
		case strings.EqualFold(e.Name, walk.FileName) && !e.Kind.IsDir():
			if err := v.emit(v.misnamed(p, e.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// misnamed reports on a file that no scan finds because of its name. Most such files are ordinary
// pages and get a note. A file with the front matter of a skill gets a warning.
func (v *validation) misnamed(p walk.Place, name string) Report {
	r := loadResult{skill: Skill{Path: walk.Join(p.Path, name), Dir: p.Path}}
	if p.Skill {
		r.note(format.Note, format.CodeFileNameCase, "it is not read: %s lies beside it", walk.FileName)
		return reportOn(r)
	}
	whole := readNamed(p.Path, p.Canonical, name, v.policy, true)
	if kindOf(whole.diags) == ErrFormat {
		r.note(format.Note, format.CodeFileNameCase, "it is not a skill: these are named %s and start with front matter", walk.FileName)
		return reportOn(r)
	}
	severity := format.Warning
	if v.policy.Level == format.Strict {
		severity = format.Error
	}
	whole.note(severity, format.CodeFileNameCase, "no scan finds it: the file must be named %s, not %s", walk.FileName, name)
	return reportOn(whole)
}

// follow reports on the directories that links lead to, unless the walk has visited them.
func (v *validation) follow() error {
	slices.Sort(v.links)
	for _, link := range v.links {
		canonical, err := filepath.EvalSymlinks(link)
		// A target inside the tree was visited by the walk. One above dir is no part of dir.
		if err != nil || v.linked[canonical] || walk.Within(canonical, v.root) || walk.Within(v.root, canonical) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(canonical, walk.FileName)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if info, err := os.Stat(canonical); err != nil || !info.IsDir() {
			continue
		}
		v.linked[canonical] = true
		if err := v.emit(reportOn(readDir(link, canonical, v.policy, true))); err != nil {
			return err
		}
	}
	return nil
}

// readAt reads the skill in dir and adds an error if there is none.
func readAt(dir string, policy format.Policy) loadResult {
	r, err := load(dir, policy, true)
	if err != nil && len(r.diags) == 0 {
		r.skill.Path = dir
		r.fail(format.CodeNoDirectory, "%v", err)
	}
	return r
}

// reportOn returns the report for a loadResult. Diagnostics is never nil: JSON shows [].
func reportOn(r loadResult) Report {
	diags := r.diags
	if diags == nil {
		diags = []format.Diagnostic{}
	}
	return Report{Path: filepath.Clean(r.skill.Path), Name: r.skill.Name, OK: !format.Failed(diags), Diagnostics: diags}
}
