package agent

import (
	"context"

	"symbio/agent/llm"
	"symbio/community"
)

type imagesKey struct{}

// WithImages returns ctx for the Send of a task that images belong to: the model of the agent is shown
// them with the text. They reach an agent of this node only, and only from a person; a signal on behalf
// of an agent or node has none. The caller has checked them (llm.NewImage).
func WithImages(ctx context.Context, images []llm.Image) context.Context {
	return context.WithValue(ctx, imagesKey{}, images)
}

type dataKey struct{}

// WithData returns ctx for the Send of a task that no person wrote word by word, such as the text of a file: the files it names
// activates no skills and attaches no files, as in a task of an agent or a node.
func WithData(ctx context.Context) context.Context { return context.WithValue(ctx, dataKey{}, true) }

// Piped stands in a person's task before what was piped to the command, which is data, too.
const Piped = "\n\nStandard input has:\n\n"

// imagesOf returns the images of a task. A sub-agent's task is sent with a context that is made of the
// parent's, so the requesters tell the two apart.
func imagesOf(ctx context.Context, s community.Signal) []llm.Image {
	images, _ := ctx.Value(imagesKey{}).([]llm.Image)
	if len(s.Requester) > 0 {
		return nil
	}
	return images
}
