package skills

import (
	"cmp"
	"path/filepath"
	"slices"

	"symbio/skills/format"
)

// Report is the verdict on one SKILL.md.
type Report struct {
	Path        string              `json:"path"`
	Name        string              `json:"name"` // "" when it could not be read
	OK          bool                `json:"ok"`
	Diagnostics []format.Diagnostic `json:"diagnostics"`
}

// Validate reads every SKILL.md in dir and below it, whole, and reports on each, in the order of
// their paths. Unlike a scan it has no limits and leaves out no directory but .git; a link to a
// skill's directory is followed one step. Where there is nothing to validate, the one report says
// so. It reads the disk and takes time in proportion.
func Validate(dir string, level format.Level) []Report {
	policy := format.Policy{Level: level}
	w, err := newWalk(dir)
	if err != nil {
		r, _ := load(dir, policy, true)
		return []Report{report(r)}
	}
	reports := []Report{}
	for p := range w.all {
		if p.skill {
			reports = append(reports, report(readDir(p.path, p.canonical, policy, true)))
		}
	}
	for _, n := range w.notes {
		if n.Diagnostics[0].Code == format.CodeFileRead {
			n.Diagnostics[0].Severity = format.Error
			reports = append(reports, Report{Path: n.Path, Diagnostics: n.Diagnostics})
		}
	}
	if len(reports) == 0 {
		r, _ := load(dir, policy, true)
		return []Report{report(r)}
	}
	slices.SortFunc(reports, func(a, b Report) int { return cmp.Compare(a.Path, b.Path) })
	return reports
}

func report(r reading) Report {
	diags := r.diags
	if diags == nil {
		diags = []format.Diagnostic{}
	}
	return Report{Path: filepath.Clean(r.skill.Path), Name: r.skill.Name, OK: !format.Failed(diags), Diagnostics: diags}
}
