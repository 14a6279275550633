// Package workspace takes the files of a directory to another machine and brings back what an agent changed there.
//
// The one idea: a directory is a Manifest, a sorted list of paths with the SHA-256 of each content. The contents
// themselves travel by hash through a content.Store, so that only what the other side lacks is sent. The result is
// a Patch: the paths that differ from the manifest. The four steps are Take (borrower), Make and Diff (lender) and
// Patch.Plan with Plan.Apply (borrower).
//
// Guarantees: Take leaves out what the parent may not read and what looks like a secret, each by name and reason. A
// manifest or patch of another node is hostile until DecodeManifest or DecodePatch has returned it: every path then is
// one file on every system, below the directory, outside of any .git, and never reached through a link. Make and Apply
// write through os.Root, and Apply writes all of a plan or nothing.
//
// It sends nothing, asks for no permission, and keeps no contents but those that it puts into the caller's store.
package workspace
