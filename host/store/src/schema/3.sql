-- The steps that were written together with this one and come before it: a list of `[at_ms, state, kind, note]`, oldest
-- first. They have the numbers before `seq`, the same call and session, and no detail; `hash` is then the hashes of
-- them all, one after the other.
ALTER TABLE transitions ADD COLUMN earlier TEXT;
