"""The screen ``atlas``: its parts."""

from fastapi import APIRouter

from headwater.studio import atlas_build, atlas_compare, atlas_head, atlas_heads, atlas_search

router = APIRouter(tags=["atlas"])
for part in (atlas_heads, atlas_head, atlas_search, atlas_compare, atlas_build):
    router.include_router(part.router)
