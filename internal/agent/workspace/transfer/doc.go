// Package transfer moves workspaces between nodes: a snapshot to the node whose agent works with it,
// and the patch of the agent's changes back.
//
// All calls are calls of Capability, from the borrower to the lender. A call is a line of JSON, the
// header, and bytes after it; its reply is the same. A content is named by its SHA-256. The borrower
// asks what is missing, and sends only that: small files packed together, large ones in chunks that
// are contents of their own, so that a transfer that broke off goes on where it was. A lease then names
// the manifest.
//
// The other side is hostile: each content is checked while it is written, and what one call may hold in
// memory, what a borrower may fill of the disk, and what a lender may send back have limits. Contents
// of one borrower are kept apart from other borrowers' contents, because to name a hash is to have the content.
//
// It does not decide which files leave a node (workspace.Options), nor what is written into the
// workspace of the parent (package team).
package transfer
