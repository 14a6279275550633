package sandbox

// gitDir are the names in a git directory that is itself what can be written.
var gitDir = []string{"hooks", "config", "config.worktree", "commondir"}

// contents are the files that are masked by a file. Everything else is masked by an empty directory: git does not
// show those, so that they are in no commit, and removing one can take nothing with it.
var contents = map[string]string{
	"config":          "",
	"config.worktree": "",
	"commondir":       ".\n", // as if it were not there
}
