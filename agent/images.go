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

// imagesOf returns the images of a task. A sub-agent's task is sent with a context that is made of the
// parent's, so the requesters tell the two apart.
func imagesOf(ctx context.Context, s community.Signal) []llm.Image {
	images, _ := ctx.Value(imagesKey{}).([]llm.Image)
	if len(s.Requester) > 0 {
		return nil
	}
	return images
}
