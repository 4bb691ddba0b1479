"""The screen ``documents``."""

from fastapi import APIRouter

router = APIRouter(tags=["documents"])
