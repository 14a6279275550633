package tool

import (
	"context"
	"fmt"
	"io"
	"strings"

	"symbio/internal/security/lazyregexp"
)

// ArtifactPrefix begins the path of an artifact: a content that SetConfig.Keep stored here or at another
// node. The hash follows. No such path is one of the file system.
const ArtifactPrefix = "artifact:"

var artifactName = lazyregexp.New(`\b` + ArtifactPrefix + `([0-9a-f]{64})\b`)

// ArtifactsNamed returns the hashes of the artifacts that a text names, in their order: at most the first
// most ones.
func ArtifactsNamed(text []byte, most int) (hashes []string) {
	for _, m := range artifactName().FindAllSubmatch(text, most) {
		hashes = append(hashes, string(m[1]))
	}
	return hashes
}

// OpenArtifact opens the artifact that a path names, if the agent of ctx's call was given it. ok is false
// if the path is another one.
func OpenArtifact(ctx context.Context, path string) (f io.ReadSeekCloser, ok bool, err error) {
	hash, ok := strings.CutPrefix(path, ArtifactPrefix)
	open := currentOf(ctx).set.cfg.Artifact
	if !ok || open == nil {
		return nil, false, nil
	}
	f, err = open(ctx, hash)
	return f, true, err
}

// readsArtifact reports whether a call reads an artifact. Which those are is decided by OpenArtifact; the
// call that gave it was judged.
func readsArtifact(j *job) bool {
	path, _ := j.inv.Args["file_path"].(string)
	return j.call.Name == "Read" && strings.HasPrefix(path, ArtifactPrefix)
}

// keepWhole stores the pictures of a result, and its text if that is too long for the model. It returns the
// lines that say so.
func keepWhole(cfg SetConfig, j *job, r Result) (lines string) {
	if cfg.Keep == nil {
		return ""
	}
	for n, img := range r.Images {
		lines += "\n" + cfg.Keep(fmt.Sprintf("picture %d of %s", n+1, j.call.Name), img.Data)
	}
	if len(r.Text) > cfg.MaxText {
		lines += "\n" + cfg.Keep("the whole result of "+j.call.Name, []byte(r.Text))
	}
	return strings.TrimRight(lines, "\n")
}
