package permission

import (
	"os"
	"path/filepath"
	"strings"

	"symbio/internal/security/permission/file"
	"symbio/internal/security/permission/shell"
)

// locator finds the files that a call uses. It has one memory of links for the whole decision, so that
// all rules judge one state of the file system.
type locator struct {
	dir   string // the working directory of the call
	links file.Links
}

// use returns a call of a file tool for name, which is in place, so that the rules of the file tools decide on it.
func (l *locator) use(tool, name string, place file.Location) *facts {
	f := lookAt(Call{Tool: tool, Args: map[string]any{"file_path": name}, Dir: l.dir}, l)
	f.places = []file.Location{place}
	return f
}

// opens returns a redirection as calls of a file tool, one for each directory in which it may
// happen. A file that cannot be located gets the zero Location, which no rule allows and which a
// deny rule may mean.
func (l *locator) opens(tool string, at shell.File) []redirection {
	var all []redirection
	add := func(dir string, known bool) {
		place := file.Location{}
		if known && !at.Path.Dynamic {
			place = l.physical(dir, at.Path.Text, at.Path.Tilde)
		}
		all = append(all, redirection{l.use(tool, at.Path.Text, place), at.Path.Text})
	}
	for _, d := range at.Dirs.Paths {
		add(d, true)
	}
	if at.Dirs.Unknown {
		add("", strings.HasPrefix(at.Path.Text, "/") || at.Path.Tilde)
	}
	return all
}

// physical returns where a path leads from dir, as the kernel goes there: a .. after a symbolic
// link leaves the link's target, so the path is not cleaned first. dir has the form of
// shell.Dirs. It returns the zero Location for a path that cannot be located.
func (l *locator) physical(dir, name string, tilde bool) file.Location {
	whole, ok := l.absolute(dir, name, tilde)
	if !ok || name == "" || strings.ContainsRune(name, 0) {
		return file.Location{}
	}
	return l.links.LocateRaw(whole)
}

// absolute joins dir and name without cleaning. ok is false when the home or the working
// directory is not known. A tilde is only expanded where the shell would do so: '~/x' in quotes
// is a file in a directory named ~.
func (l *locator) absolute(dir, name string, tilde bool) (string, bool) {
	home := func(p string) (string, bool) {
		h, err := os.UserHomeDir()
		rest := strings.TrimPrefix(p, "~")
		// ~x, another user's home, is not known here.
		return h + rest, err == nil && filepath.IsAbs(h) && (rest == "" || rest[0] == '/')
	}
	switch {
	case tilde:
		return home(name)
	case strings.HasPrefix(name, "/"):
		return name, true
	case dir == "~" || strings.HasPrefix(dir, "~/"):
		at, ok := home(dir)
		return at + "/" + name, ok
	case strings.HasPrefix(dir, "/"):
		return dir + "/" + name, true
	}
	return l.dir + "/" + dir + "/" + name, filepath.IsAbs(l.dir)
}

// mayName returns the files that a literal word may name, in each of the directories; none for another word.
func (l *locator) mayName(w shell.Word, at shell.Dirs) (all []file.Location) {
	dirs := at.Paths
	if len(dirs) == 0 {
		// An unknown directory alone: the working directory stands for it, so that absolute
		// names count.
		dirs = []string{""}
	}
	for _, name := range candidates(w) {
		for _, dir := range dirs {
			all = append(all, l.physical(dir, name.Text, name.Tilde))
		}
	}
	return all
}

// candidates returns the parts of a literal word that may name a file: the whole word, and what follows
// the signs that programs put before a name, as in --file=x, -fx, @x and HEAD:x. It errs on the
// side of too many, since they are used for denials. Programs expand a ~ behind such a sign by
// themselves or not, so it is taken for the home.
func candidates(w shell.Word) (all []shell.Word) {
	text := w.Text
	if w.Dynamic {
		return nil
	}
	if !strings.HasPrefix(text, "-") { // the whole of an option is no name
		all = append(all, w)
	}
	add := func(rest string) {
		if rest != "" && rest != text {
			all = append(all, shell.Word{Text: rest, Tilde: rest == "~" || strings.HasPrefix(rest, "~/")})
		}
	}
	for _, sign := range "=@:" {
		if i := strings.LastIndexByte(text, byte(sign)); i >= 0 {
			add(text[i+1:])
		}
	}
	for at := 2; at < min(len(text), 5) && text[0] == '-' && text[1] != '-'; at++ {
		add(text[at:])
	}
	if strings.HasPrefix(text, "@") && len(text) > 1 {
		add(text[1:])
	}
	return all
}
