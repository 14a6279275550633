package skills

import (
	"os"
	"path/filepath"

	"symbio/skills/walk"
)

// Root is a directory below which skills are searched.
type Root struct {
	Path  string
	Scope Scope
	// Flat searches only the directories right below it.
	Flat bool
}

// The variables that StandardRoots reads through the function it is given.
const (
	// EnvAgentsRoot names the root of the repository; it counts if the working directory is in it.
	EnvAgentsRoot = "SYMBIO_AGENTS_ROOT"
	// EnvSearchPath lists further roots, separated as in PATH.
	EnvSearchPath = "AGENT_SKILLS_PATH"
)

// folders are where a scope keeps its skills; the first is searched first.
var folders = [...]string{".agents/skills", ".agent/skills"}

// standardMarkers show the root of a repository.
var standardMarkers = []string{".symbio", ".git", ".jj"}

// StandardRoots returns where skills are searched, in the order of precedence: every directory from
// dir up to the root of its repository, deepest first (only dir when it is in none), the home
// directory, the search path of the environment. An empty home or dir has no skills, a nil getenv no
// variables. markers are the names that show the root of a repository; none = .symbio, .git, .jj.
// Roots that do not exist are listed too. It looks for markers on the disk.
func StandardRoots(home, dir string, getenv func(string) string, markers ...string) []Root {
	if len(markers) == 0 {
		markers = standardMarkers
	}
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	var roots []Root
	add := func(scope Scope, dir string) {
		for _, f := range folders {
			roots = append(roots, Root{Path: filepath.Join(dir, filepath.FromSlash(f)), Scope: scope})
		}
	}
	for _, d := range chain(dir, getenv(EnvAgentsRoot), markers) {
		add(ScopeProject, d)
	}
	if home != "" {
		add(ScopeUser, home)
	}
	for _, d := range filepath.SplitList(getenv(EnvSearchPath)) {
		if d != "" {
			roots = append(roots, Root{Path: d, Scope: ScopeConfig})
		}
	}
	return roots
}

// IsSkillDirectory reports whether dir holds a file called SKILL.md, whatever is in it. Links are
// followed; it looks at the disk.
func IsSkillDirectory(dir string) bool { return walk.IsSkill(dir) }

// chain returns the directories from dir up to the root of its repository.
func chain(dir, root string, markers []string) []string {
	if dir == "" {
		return nil
	}
	if root != "" && !walk.Within(root, dir) {
		root = ""
	}
	var up []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		up = append(up, d)
		if root != "" && d == filepath.Clean(root) || root == "" && marked(d, markers) {
			return up
		}
		if d == filepath.Dir(d) {
			return up[:1]
		}
	}
}

func marked(dir string, markers []string) bool {
	for _, m := range markers {
		if _, err := os.Lstat(filepath.Join(dir, m)); err == nil {
			return true
		}
	}
	return false
}
