package workcontext

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/security/secret"
	"symbio/skills"
)

// maxDepth is how deep files import one another, maxImports how many paths are looked at.
const (
	maxDepth   = 5
	maxImports = 100
)

// imports adds the files that the text of file names as @path. A path is relative to the directory of the file, and ends below
// root: what a cloned repository imports is in that repository. Files with keys or passwords are left out.
func (n *notes) imports(root, name, file, text string, depth int) {
	if depth == maxDepth {
		return
	}
	if repo := repository(filepath.Dir(file)); repo != "" && depth > 0 && below(root, repo) {
		root = repo
	}
	for _, path := range importsOf(text) {
		if rest, home := strings.CutPrefix(path, "~/"); home {
			path = filepath.Join(n.home, rest)
		} else if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		if n.looked++; n.looked > maxImports || n.left <= 0 {
			return
		}
		if text, real := n.imported(root, path); real != "" {
			label, _ := filepath.Rel(root, path) // below root
			n.add(root, filepath.ToSlash(label)+", imported by "+name, real, text, depth+1)
		}
	}
}

// imported returns the text of a file below root and its path without links; "" if it may not be imported, or was.
func (n *notes) imported(root, path string) (text []byte, real string) {
	r, err := os.OpenRoot(root)
	if err != nil || !below(root, path) {
		return nil, ""
	}
	defer r.Close()
	rel, _ := filepath.Rel(root, path) // below has asked
	if text, err = readFile(r, rel, maxFile+1); err != nil {
		return nil, ""
	}
	real, err = filepath.EvalSymlinks(path) // within root, or it was not read
	if err != nil || n.seen[real] || n.denies(path) || n.denies(real) {
		return nil, ""
	}
	home, _ := filepath.EvalSymlinks(n.home)
	if in, err := filepath.Rel(home, real); err == nil && secret.In(filepath.ToSlash(in)) != "" {
		return nil, ""
	}
	return text, real
}

// repository returns the root of the repository that has dir; "" if none.
func repository(dir string) string {
	markers := []string{".git", ".jj"}
	dirs := skills.ParentDirs(dir, "", markers)
	top := dirs[len(dirs)-1]
	if !slices.ContainsFunc(markers, func(m string) bool { _, err := os.Lstat(filepath.Join(top, m)); return err == nil }) {
		return ""
	}
	return top
}

// below reports whether a path is dir or lies in it, by its name.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// importsOf returns the paths that stand in a text as @path, but for those in code.
func importsOf(text string) (paths []string) {
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		run := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		if run == "" {
			run = line[:len(line)-len(strings.TrimLeft(line, "~"))]
		}
		switch rest := line[len(run):]; {
		case fence != "":
			if strings.HasPrefix(run, fence) && rest == "" {
				fence = ""
			}
			continue
		case len(run) >= 3 && !strings.Contains(rest, "`"):
			fence = run
			continue
		}
		for _, word := range strings.Fields(withoutSpans(line)) {
			if path, is := strings.CutPrefix(word, "@"); is && path != "" {
				paths = append(paths, strings.TrimRight(path, ".,;:!?)"))
			}
		}
	}
	return paths
}

// withoutSpans returns a line without what stands between backticks.
func withoutSpans(line string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(line, "`")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteByte('`')
		line = strings.TrimLeft(rest, "`")
		run := strings.Repeat("`", 1+len(rest)-len(line))
		if _, after, closed := strings.Cut(line, run); closed {
			line = after
		}
	}
}
