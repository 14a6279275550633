package skills

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/skills/walk"
)

// Root is a directory in which skills are searched.
type Root struct {
	Path  string
	Scope Scope
	// Flat searches only the directories directly in it.
	Flat bool
}

// The variables that StandardRoots reads through the function it is given.
const (
	// EnvAgentsRoot names the root of the repository; it counts if the working directory is in it.
	EnvAgentsRoot = "SYMBIO_AGENTS_ROOT"
	// EnvSearchPath lists further roots, separated as in PATH.
	EnvSearchPath = "AGENT_SKILLS_PATH"
)

// folders are the directories in which a scope keeps its skills. The first one is searched first.
var folders = [...]string{".agents/skills", ".agent/skills"}

// CompatNames are the other agent programs whose skills WithCompat finds: those in .NAME/skills.
func CompatNames() []string { return []string{"claude", "codex", "github"} }

// WithCompat returns the standard roots with the directories of other agent programs, of CompatNames:
// for each directory of a project or user, in the order of names.
func WithCompat(roots []Root, names []string) []Root {
	for _, r := range slices.Clone(roots) {
		if base, ok := strings.CutSuffix(r.Path, filepath.FromSlash(folders[0])); ok && r.Scope != ScopeConfig {
			for _, name := range names {
				roots = append(roots, Root{Path: filepath.Join(base, "."+name, "skills"), Scope: r.Scope})
			}
		}
	}
	return roots
}

// rootMarkers are the names that mark the root of a repository.
var rootMarkers = []string{".symbio", ".git", ".jj"}

// StandardRoots returns the directories in which skills are searched, in the order of precedence:
// every directory from dir up to the root of its repository, deepest first (only dir if it is in
// none), the home directory, and the search path of the environment. An empty home or dir has no
// skills, and a nil getenv no variables. It also returns roots that do not exist. It looks for the
// rootMarkers on the disk.
func StandardRoots(home, dir string, getenv func(string) string) []Root {
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	var roots []Root
	add := func(scope Scope, dir string) {
		for _, f := range folders {
			roots = append(roots, Root{Path: filepath.Join(dir, filepath.FromSlash(f)), Scope: scope})
		}
	}
	for _, d := range ParentDirs(dir, getenv(EnvAgentsRoot), rootMarkers) {
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

// IsSkillDirectory reports whether dir has a regular file called SKILL.md, whatever its content. It
// follows links and looks at the disk.
func IsSkillDirectory(dir string) bool { return walk.IsSkill(dir) }

// ParentDirs returns the directories from dir up to root, or if that is "" up to the root of dir's
// repository, which has an entry with one of the names in markers; only dir if there is no such
// directory.
func ParentDirs(dir, root string, markers []string) []string {
	if dir == "" {
		return nil
	}
	if root != "" && !walk.Within(root, dir) {
		root = ""
	}
	var up []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		up = append(up, d)
		if root != "" && d == filepath.Clean(root) || root == "" && hasMarker(d, markers) {
			return up
		}
		if d == filepath.Dir(d) {
			return up[:1]
		}
	}
}

// hasMarker reports whether dir has an entry with one of the names.
func hasMarker(dir string, markers []string) bool {
	return slices.ContainsFunc(markers, func(m string) bool {
		_, err := os.Lstat(filepath.Join(dir, m))
		return err == nil
	})
}
